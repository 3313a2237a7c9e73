"""The joint bank: all weights learnt together (docs/joint.md)."""

from __future__ import annotations

from projbank.methods.banks import BankMethod


class JointBank(BankMethod):
    """`ProjectionBank()`, whose default solver is "joint"; parameters and attributes as there."""
