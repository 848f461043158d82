"""Where randomness comes from: a Chooser answers every question a rule may ask of chance.

Production answers from keyed uniforms (`Keyed`), the certifier by enumerating every branch, so a
rule's specification is one function for both. A draw is a pure function of its address: there is no
stream, nothing depends on what was drawn before or for whom else.
"""

from paceline.chooser.draws import Chooser, Draw, Law, Purpose
from paceline.chooser.keyed import Keyed
from paceline.chooser.sparse import SparseLaw

__all__ = ["Chooser", "Draw", "Keyed", "Law", "Purpose", "SparseLaw"]
