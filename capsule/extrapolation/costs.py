"""What an operation among n ranks costs: messages, and bytes, one after the other.

Hockney's model (1994): a message of S bytes takes a + b S seconds, whoever sends it, and a rank
sends one and receives one at a time. What an operation takes then is that of its longest chain of
messages, by the algorithm that it goes by (Thakur, Rabenseifner and Gropp 2005, sections 4 and 5;
n a power of two where nothing else is said):

    ring                 all-reduce  2 (n - 1) messages of S / n
                         all-gather  n - 1 messages of S
                         reduce      likewise to the sums, then the root is sent its n - 1 parts
    recursive-doubling   all-reduce  log2 n messages of S
                         all-gather  log2 n messages, which double: (n - 1) S
    rabenseifner         all-reduce  2 log2 n messages, which halve and double: 2 (n - 1) S / n
    binomial-tree        broadcast   log2 n messages of S, rounded up
    direct               swap        one message of S for each peer

For recursive doubling and Rabenseifner's with n that is no power of two, whoever is beyond the last
one hands its array to another rank before, and gets one after: two more messages of S.
"""

from __future__ import annotations

from typing import NamedTuple


class Cost(NamedTuple):
    """The longest chain of messages.

    Attributes:
        messages: How many.
        bytes: Of all of them.
    """

    messages: float
    bytes: float

    def times(self, count: float) -> Cost:
        """The same so many times, one after the other."""
        return Cost(self.messages * count, self.bytes * count)


def reckon(operation: str, algorithm: str, ranks: int, size: float) -> Cost:
    """What an operation costs.

    Args:
        operation: `all-reduce`, `all-gather`, `reduce`, `broadcast` or `swap`.
        algorithm: One that stands beside it above.
        ranks: At least one.
        size: Bytes that a rank contributes; of `swap`, to each peer.

    Raises:
        KeyError: It does not go by that algorithm.

    >>> reckon("all-reduce", "ring", 4, 100.0), reckon("all-reduce", "rabenseifner", 6, 100.0)
    (Cost(messages=6, bytes=150.0), Cost(messages=6, bytes=350.0))
    """
    others, doublings = ranks - 1, ranks.bit_length() - 1
    power = 1 << doublings
    # whoever is beyond the last power of two
    beyond = Cost(2, 2 * size) if power < ranks else Cost(0, 0)
    match operation, algorithm:
        case "all-reduce" | "reduce", "ring":
            return Cost(2 * others, 2 * others / ranks * size)
        case "all-reduce", "recursive-doubling":
            return Cost(doublings + beyond.messages, doublings * size + beyond.bytes)
        case "all-reduce", "rabenseifner":
            halves = 2 * (power - 1) / power * size
            return Cost(2 * doublings + beyond.messages, halves + beyond.bytes)
        case "all-gather", "ring":
            return Cost(others, others * size)
        case "all-gather", "recursive-doubling" if power == ranks:
            return Cost(doublings, others * size)
        case "broadcast", "binomial-tree":
            steps = others.bit_length()
            return Cost(steps, steps * size)
        case "swap", "direct":
            peers = min(2, others)
            return Cost(peers, peers * size)
    raise KeyError(f"no {operation} by {algorithm} among {ranks}")
