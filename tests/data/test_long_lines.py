"""Lines of any length are read in time that grows with their length alone.

Nothing is timed here. The lines are so long that a reader that goes back over what it has read would need
hours.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
from data_files import put, refused

from labelgap.data import read_answer_file, read_label_table

MANY = 200_000
HEAD = "@relation x\n@attribute a real\n@attribute y {0,1}\n@data\n"
BLANKS, DIGITS = " " * MANY, "7" * MANY


def test_arff(tmp_path: Path) -> None:
    cases = [
        (HEAD + f"1{BLANKS}'x,1\n", "line 5: the quotes do not match"),
        (HEAD + f"{BLANKS}'\n", "line 5: the quotes do not match"),
        (HEAD + f"'{BLANKS},1\n", "line 5: the quotes do not match"),
        (HEAD + "'\\" * MANY + "\n", "line 5: the quotes do not match"),
        (HEAD + "'\"" * MANY + "%\n", "line 5: "),
        (HEAD + f"{{0 1,{BLANKS}'x}}\n", "line 5: the quotes do not match"),
        (HEAD + f"{{0 1, 1 '{BLANKS}}}\n", "line 5: the quotes do not match"),
        (HEAD + f"{{{DIGITS} 1}}\n", r"line 5: '777.*\(200002 characters\) is no 'number value'"),
        (HEAD + f"{DIGITS},1\n", "line 5, attribute 'a': 'inf' is not a number"),
        (HEAD + f"{DIGITS}x,1\n", "line 5, attribute 'a': '777"),
        (HEAD.replace("real", f"{BLANKS}'"), "line 2: the attribute 'a' has the type"),
        (HEAD.replace("@attribute a", f"@attribute{BLANKS}'a{BLANKS}\""), "line 2: "),
        (HEAD.replace("{0,1}", f"{{0,{BLANKS}'}}") + "1,1\n", "line 3: the values of the attribute 'y'"),
        (HEAD.replace("x\n", f"x{BLANKS}'{BLANKS}%\n", 1) + "1,7\n", "line 5, attribute 'y': '7'"),
        (HEAD.replace(" x", f" 'x: -C {DIGITS}'") + "1,1\n", "the relation says that '777"),
        (HEAD.replace(" x", " 'x: -C 3'") + "1,1\n", "the relation says that '3' attributes are labels"),
    ]
    refused(tmp_path, "a.arff", cases)


def test_arff_with_long_lines_that_are_right(tmp_path: Path) -> None:
    text = HEAD.replace("{0,1}", f"{{0,{BLANKS}'1'{BLANKS}}} % it's{BLANKS}'")
    path = put(tmp_path, "a.arff", text + f"{BLANKS}2{BLANKS},{BLANKS}'1'{BLANKS} % '{BLANKS}\n")
    table = read_label_table(path, labels="y")
    np.testing.assert_array_equal(table.X, [[2.0]])
    assert table.labels.values.tolist() == [1]


def test_xmc(tmp_path: Path) -> None:
    cases = [
        (f"0 1:{DIGITS}x\n", r"line 1: '1:777.*' \(200003 characters\) is no feature"),
        (f"0 1:{DIGITS}\n", "line 1: '1:777.* is not finite"),
        (f"0 {DIGITS}:1\n", "line 1: '777.* is a feature beyond 2147483647"),
        (f"{DIGITS} 0:1\n", "line 1: '777.* has a label beyond 2147483647"),
        (f"1 {DIGITS} 1\n0 0:1\n", "line 1: the header claims the size '777"),
        (f"{BLANKS}1{BLANKS}2{BLANKS}x\n0 0:1\n", "line 1: '2' is no feature"),
    ]
    refused(tmp_path, "a.txt", cases)


def test_csv(tmp_path: Path) -> None:
    cases = [
        (f"a,y\n{value[:130_000]}x,1\nyes,1\n", r"line 2, column 'a': '.*777.* is no number")
        for value in (f"{DIGITS}x", f"{DIGITS}.{DIGITS}e", f"+{DIGITS}")
    ]
    refused(tmp_path, "a.csv", cases, labels="y")


def test_movielens(tmp_path: Path) -> None:
    for digits, place in itertools.product((30, 5000, MANY), range(4)):
        words = ["1", "2", "3", "4"]
        words[place] = "7" * digits
        text = "1\t2\t3\t4\n" + "\t".join(words) + "\n"
        if (digits, place) == (30, 2):
            values = read_answer_file(put(tmp_path, "u.data", text)).values
            np.testing.assert_allclose(values, [3, 7.7777777e29], rtol=1e-6)
        else:
            said = r"line 2, column '\w+': '777.* is (no number|too large)"
            refused(tmp_path, "u.data", [(text, said)], read_answer_file)
