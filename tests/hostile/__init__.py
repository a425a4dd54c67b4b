"""Bad inputs by the thousand: every one must give a right answer or one of labelgap's own errors.

``python -m tests.hostile --cases 100000`` makes a long run of it; ``test_campaign.py`` makes a short one.
"""
