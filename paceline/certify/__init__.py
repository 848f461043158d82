"""Certification: proofs by exact enumeration, on the machine that will run the code."""

from paceline.certify.exact import Case, violation
from paceline.certify.suite import Proof, cases, prove

__all__ = ["Case", "Proof", "cases", "prove", "violation"]
