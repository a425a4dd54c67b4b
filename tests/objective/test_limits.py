"""What may be allocated beside the data."""

from labelgap.objective.protocol import may_form


def test_may_form_compares_with_what_the_data_take():
    assert may_form((256, 256), 0)
    assert not may_form((256, 257), 0)
    assert may_form((1000, 1000), 250_000)
    assert not may_form((1000, 1001), 250_000)
    # However much data there is, an SVD of several thousand by several thousand is no small matter.
    assert not may_form((3000, 3000), 10**9)
