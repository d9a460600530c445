"""Keep the user's keys of the kernel from a program, and then start it.

A process inherits the session keyring of the one that started it, with Kerberos tickets and AFS
tokens, and can reach its user's other keyrings by three system calls. This file needs the standard
library of Python 3.9 alone, since it is also started as a program inside images:

    python3 -I keyguard.py PROGRAM [WORD...]
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys
from collections.abc import Callable

_JOIN_SESSION_KEYRING = 1
_SET_NO_NEW_PRIVS, _SET_SECCOMP = 38, 22
_SECCOMP_MODE_FILTER = 2
_REFUSE, _ALLOW = 0x00050000 | errno.ENOSYS, 0x7FFF0000
# instructions of classic BPF: load a word of `struct seccomp_data`, compare, return
_LOAD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_NUMBER, _ARCHITECTURE = 0, 4
_X32 = 0x40000000
# `add_key`, `request_key` and `keyctl` by AUDIT_ARCH of <linux/audit.h>
_X86 = {0xC000003E: (248, 249, 250, *(_X32 | call for call in (248, 249, 250)))}
_I386 = {0x40000003: (286, 287, 288)}
_TABLES: dict[str, dict[int, tuple[int, ...]]] = {
    "x86_64": {**_X86, **_I386},
    "aarch64": {0xC00000B7: (217, 218, 219), 0x40000028: (309, 310, 311)},
    "ppc64le": {0xC0000015: (269, 270, 271), 0x80000015: (269, 270, 271), 0x14: (269, 270, 271)},
    "riscv64": {0xC00000F3: (217, 218, 219), 0x400000F3: (217, 218, 219)},
    "s390x": {0x80000016: (278, 279, 280), 0x16: (278, 279, 280)},
}
_KEYCTL = {"x86_64": 250, "aarch64": 219, "ppc64le": 271, "riscv64": 219, "s390x": 280}
# of Apptainer, where it cannot start a program
_NOT_STARTED = 255


class _Program(ctypes.Structure):
    """`struct sock_fprog`."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def join() -> None:
    """Give this thread, and what it starts from now on, a new and empty session keyring.

    Nothing happens where the kernel has no keys, or already refuses this process the call.

    Raises:
        OSError: There is no room for one more keyring, or the machine is of an unknown kind.
    """
    try:
        _call(_libc().syscall, _KEYCTL[_machine()], _JOIN_SESSION_KEYRING, None)
    except OSError as error:
        if error.errno not in (errno.ENOSYS, errno.EPERM, errno.EACCES):
            raise


def refuse_calls() -> None:
    """Have the kernel answer ENOSYS to every call about keys, for this thread and what it starts.

    An ordinary user thereby gives up to gain rights by programs that have them (`no_new_privs`),
    such as Apptainer's own starter where it is installed setuid.

    Raises:
        OSError: The kernel has no such filter, or the machine is of an unknown kind.
    """
    instructions = _instructions()
    program = _Program(len(instructions) // 8, instructions)
    prctl, arguments = _libc().prctl, (_SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0)
    try:
        _call(prctl, _SET_SECCOMP, *arguments)
    except OSError as error:
        if error.errno != errno.EACCES:
            raise
        _call(prctl, _SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        _call(prctl, _SET_SECCOMP, *arguments)


def isolate() -> None:
    """Do both, in the one order that works.

    Raises:
        OSError: As for each of them.
    """
    join()
    refuse_calls()


def _instructions() -> bytes:
    """Return the filter: for each architecture of the machine, compare with each of its calls."""
    code = [(_LOAD, 0, 0, _ARCHITECTURE)]
    for architecture, calls in _TABLES[_machine()].items():
        code.append((_JUMP_IF_EQUAL, 0, len(calls) + 3, architecture))
        code.append((_LOAD, 0, 0, _NUMBER))
        for place, call in enumerate(calls):
            code.append((_JUMP_IF_EQUAL, len(calls) - place, 0, call))
        code.append((_RETURN, 0, 0, _ALLOW))
        code.append((_RETURN, 0, 0, _REFUSE))
    code.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in code)


def _machine() -> str:
    """Return the kind of machine, which a 64-bit kernel may hide from a 32-bit process."""
    machine = os.uname().machine
    machine = {"i686": "x86_64", "armv8l": "aarch64"}.get(machine, machine)
    if machine not in _TABLES or struct.calcsize("P") != 8:
        raise OSError(errno.ENOSYS, f"unsupported architecture {machine}")
    return machine


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _call(function: Callable[..., int], *arguments: object) -> None:
    ctypes.set_errno(0)
    if function(*arguments) < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def _main(words: list[str]) -> int:
    """Start a program that cannot reach its user's keys; as Apptainer says where there is none."""
    try:
        refuse_calls()
    except OSError as error:
        sys.stderr.write(f"FATAL:   cannot refuse system calls about keys: {error.strerror}\n")
        return _NOT_STARTED
    try:
        os.execvp(words[0], words)  # noqa: S606 - no shell
    except FileNotFoundError:
        sys.stderr.write(f'FATAL:   "{words[0]}": executable file not found in $PATH\n')
        return _NOT_STARTED
    except OSError as error:
        sys.stderr.write(f"FATAL:   {words[0]}: {error.strerror}\n")
        return _NOT_STARTED


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
