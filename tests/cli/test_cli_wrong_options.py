"""Options and files that are slightly wrong: the error says what, where and what to do."""

from __future__ import annotations

import pytest
from cli_runs import error_of, run, run_json

TAGS = ("--labels", "tag_*", "--id", "id")


@pytest.mark.parametrize("command", ["fit", "complete", "threshold"])
@pytest.mark.parametrize("bound", ["recall > 0.9", "recall", "recall >= 90%", "foo >= 0.5", ""])
def test_a_bound_that_cannot_be_read(command: str, bound: str) -> None:
    files = ("articles.csv", "new_articles.csv") if command == "threshold" else ("articles.csv", *TAGS)
    said = error_of(command, *files, "--subject-to", bound)
    words = (
        "Unknown metric 'foo'" if bound.startswith("foo") else f"--subject-to holds {bound!r}, which is no"
    )
    assert said.startswith(f"Error: {words}")
    error = run_json(command, *files, "--subject-to", bound, code=1)["error"]
    assert error["exit_code"] == 1
    assert words in error["message"]


def test_more_jobs_than_there_is_work_for() -> None:
    options = ("--trace-penalty", "0.05", "--ridge-penalty", "0.01", "--quiet")
    run("fit", "articles.csv", *TAGS, *options, "--jobs", "99999")
