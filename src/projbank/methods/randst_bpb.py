"""RandST+BPB: BPB on random subspaces instead of those of k-means."""

from __future__ import annotations

from typing import ClassVar

from projbank.methods.bpb import BPB


class RandomBPB(BPB):
    """`BPB` whose groups are random: "auto" is "random", "soft" is "soft-random". Parameters as there."""

    _auto_grouping: ClassVar[dict[str, str]] = {"paper": "random"}
