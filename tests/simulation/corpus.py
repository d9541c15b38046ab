"""Seeds that once broke an invariant, either of Baton or of Baton with a guard removed. They are always simulated.

A seed no longer repeats the old failure once the simulation makes other random choices. Therefore each fixed error also
has a test of its own, and `mutants.py` lists the guards that must not be missing.
"""

from collections.abc import Mapping

# fmt: off
ONCE_FAILED: Mapping[str, tuple[int, ...]] = {
    "workflows": (
        14, 44, 166, 208, 279, 286, 374, 433, 574, 683, 846, 890, 1408, 1733, 1874, 2438, 2641, 2874, 3486, 8857, 13311,
        15137, 18234, 31030, 57507, 64339, 67769, 106162, 124583, 124888, 1005806, 1014166, 9005699, 43003181,
        43003363, 43007573, 43012985, 43028307, 1607,
    ),
    "background": (911, 1078, 1391, 3998, 20171, 41001480, 51012981, 61019268),
    "questions": (439, 1306, 3169, 4138, 5446, 6135),
    "parallel": (6608, 6780),
    "lists": (1469, 2662, 20076),
    "approvals": (263, 817, 1313, 1623, 2888, 3395, 501451),
    "waits": (405,),
    "starts": (411,),
    "background-starts": (339, 653),
    "events": (98, 609, 641630990),
    "background-waits": (0, 9, 12, 28, 220, 370, 425, 483, 703, 2149),
    "jobs": (879, 890, 2142, 4084, 18788, 32547, 54537, 59050, 1029279, 42001009, 42018810, 42025267),
}
# fmt: on
