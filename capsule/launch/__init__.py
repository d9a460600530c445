"""Launchers of ranks, one module each."""

from __future__ import annotations

import os
from dataclasses import replace

from capsule.errors import CannotRunError
from capsule.launch.base import Joins, Launcher, Surveys
from capsule.launch.local import Local
from capsule.manifest.model import Resources
from capsule.runtimes.base import NETWORK, Prepared, Runtime
from capsule.site import Site

_NODES = "/resources/nodes"
SHARED = "its ranks share this machine's network, to reach each other"


def choose(resources: Resources, site: Site) -> Launcher:
    """Return the launcher that starts the ranks of these resources here.

    It is the site's; else `local` where all ranks run on this node, and `srun` where they are to
    run on several and capsule runs inside a job of Slurm's.

    Raises:
        CannotRunError: It cannot start them here, or there is none.
    """
    name = site.launcher or ("local" if resources.nodes == 1 else "srun")
    where = site.where("/launcher") if site.launcher else _NODES
    if name == "local":
        if resources.nodes > 1:
            raise CannotRunError(
                f"{resources.nodes} nodes requested; launcher local starts ranks on one node only",
                where=where,
                advice='set "launcher": "srun" in the site file, and run in a Slurm job',
            )
        return Local()
    # what few runs need is imported for these alone
    if name == "mpirun":
        from capsule.launch import mpirun

        mpirun.require_one_node(resources, where=where)
        return mpirun.Mpirun()
    from capsule.launch import srun

    srun.require_allocation(resources, where=where)
    return srun.Srun(resources)


def starts_elsewhere(launcher: Launcher) -> bool:
    """Return whether ranks start on other nodes alone: those of an allocation that this process,
    as on a login node, is outside of.
    """
    return isinstance(launcher, Surveys) and "SLURMD_NODENAME" not in os.environ


def share_network(
    prepared: Prepared, runtime: Runtime, resources: Resources, launcher: Launcher
) -> Prepared:
    """Return an image as its containers are started: several ranks have to reach each other.

    Containers without a network each have a loopback interface of their own.
    """
    observations = {**prepared.observations, **launcher.observations()}
    if resources.ranks == 1 or not runtime.contained:
        return replace(prepared, observations=observations)
    observations[NETWORK] = f"none: {SHARED}"
    if isinstance(launcher, Joins):
        how = "" if launcher.joins_all else "where it joins ranks, "
        observations["mpi"] = f"{how}by TCP within a node too: containers share no memory"
    return replace(prepared, observations=observations, open_network=SHARED)
