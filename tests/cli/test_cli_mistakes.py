"""Mistakes at the command line: each is told in one line, in JSON too, and no file is changed.

In the tables a command is followed by its exit code and what is said, with ``...`` for what is between.
``TABLE`` is a file with its labels and ids, and ``ARTICLES`` a model and rows for it. After ``1f`` the same
is said with ``--force``, too, which is then no advice.
"""

from __future__ import annotations

import os
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import get_type_hints

import numpy as np
import pytest
from cli_runs import EXAMPLES, FIXED, TABLE, error_of, lines, run, run_json, write_ratings

import labelgap
from labelgap.cli.app import COMMANDS, load_command
from labelgap.data import read_label_table

NUMBERS = {"pace": "numeric", "key": "{1,2,3}", "calm": "{0,1}", "sad": "{0,1}"}
ARFF = "@relation songs\n" + "".join(f"@attribute {name} {kind}\n" for name, kind in NUMBERS.items())
FILES = {
    "one.txt": "\n",
    "keep.txt": "mine",
    "keep.png": "mine",
    "keep.onnx": "mine",
    "keep.labelgap": "mine",
    "short.csv": "x,y\n1,0\n",
    "a.csv.bz2": "x",
    "a.csv.zst": "x",
    "a.feather": "x",
    "a.jsonl": "x",
    # Ratings.
    "u.data": "1\t7\t5\t0\n2\t7\t1\t0\n\n1\t7\t2\t0\n",
    "stars.csv": "user,film,stars\nann,Ran,5\nbob,Ran,2\nann,Jaws,1\n",
    "flags.csv": "when,film,who,ok\n2024-05-31,Ran,ann,1\n2024-05-31,Ran,bob,0\n",
    "buys.csv": "film id,customer\n1,ann\n2,bob\n",
    "likes.csv": "user,item,date\nu1,film 1,2024-05-31\nu2,film 2,2024-05-31\n",
    "plays.csv": "user,item,minutes,day\nu1,1,3,2024-05-01\nu1,1,9,2024-05-02\nu2,1,1,2024-05-03\n",
    "pairs.csv": "user,item\nu1,film 1\n\nnobody,film 1\nu1,nothing\n",
    "unknown.csv": "user,item,value\nu1,film 1,5\nu1,nothing,2\n",
    "strangers.csv": "user,item,value\nnobody,nothing,5\n",
    "stranger_pairs.csv": "user,item\nzoe,film 2\n",
    "stars_of_other_films.csv": "item,year\n1,1990\n2,1991\n",
    "ages.csv": "user,age\nu1,7\n",
    "soon.csv": "film 1\tsoon\n",
    "three_parts.csv": "a,b,c\n",
    "no_item.csv": "nothing,2024-05-31\n",
    "dated.csv": "film 1,2024-05-31\n",
    "bad_times.csv": "user,item,value,timestamp\n1,2,3,yesterday\n2,3,4,2024-01-01\n",
    "mixed_times.csv": "user,item,value,timestamp\n0,2,3,2024-03-01\n1,2,3,1709251200\n",
    "late_times.csv": "user,item,value,timestamp\n0,2,3,2024-03-01\n1,2,3,1701013150000\n",
    "blank_times.csv": "user,item,value,timestamp\n0,2,3,2024-03-01\n1,2,3,\n",
    "nan_times.csv": "user,item,value,timestamp\n0,2,3,5\n1,2,3,nan\n",
    # Tables.
    "all_yes.csv": "x,y\n" + "".join(f"{at},1\n" for at in range(300)),
    "one_yes.csv": "x,y\n" + "".join(f"{at},{'' if at % 2 else 1}\n" for at in range(12)),
    "all_no.csv": "x,y\n" + "".join(f"{at},0\n" for at in range(12)),
    "unlabelled.csv": "x,y\n" + "".join(f"{at},\n" for at in range(12)),
    "songs.arff": f"{ARFF}@data\n" + "".join(f"{at / 9},{at % 3 + 1},?,{at % 2}\n" for at in range(9)),
    "gaps.arff": f"{ARFF}@data\n"
    + "".join(f"{at or '?'},{at % 3 + 1},{at % 2},{int(at > 3)}\n" for at in range(9)),
    "few_features.csv": "id,words\nA900,7\n",
    # Scores and labels.
    "scores.csv": "id,x,y\na,0.9,0.2\nb,0.6,0.1\nc,0.3,0.8\nd,0.4,0.45\n",
    "labels.csv": "id,x,y\na,1,0\nb,1,\nc,,1\nd,1,0\n",
    "only_y.csv": "y\n0\n1\n1\n0\n",
    "other_ids.csv": "id,x,y\nq,1,0\n",
    "twice_ids.csv": "id,x,y\na,1,0\na,0,1\n",
}


@pytest.fixture(scope="module")
def place(fitted: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with every file that the mistakes need."""
    folder = tmp_path_factory.mktemp("mistakes")
    for path in fitted.values():
        shutil.copy(path, folder)
    write_ratings(folder / "ratings.csv")
    for name in ("articles.csv", "new_articles.csv", "movielens/u.data"):
        shutil.copy(EXAMPLES / name, folder / name.replace("movielens/u.", "movielens."))
    before = Path.cwd()
    os.chdir(folder)
    for name, text in FILES.items():
        Path(name).write_text(text, encoding="utf-8")
    # With an odd number of bytes it would be no UTF-16 at all.
    table = Path("articles.csv").read_bytes()
    Path("even.csv").write_bytes(table + b"\n" * (len(table) % 2))
    Path("latin.txt").write_bytes("u1\nZoë\n".encode("latin-1"))
    damaged = bytearray(Path("articles.labelgap").read_bytes())
    damaged[len(damaged) // 2] ^= 0xFF
    Path("damaged.labelgap").write_bytes(damaged)
    # Columns of new_articles.csv under other names, without the last, with no known label, with a bad number.
    head, *rows = (line.split(",") for line in lines("new_articles.csv"))
    changed = {
        "renamed": [[{"links": "urls", "images": "pictures"}.get(name, name) for name in head], *rows],
        "few": [head[:-1], *(row[:-1] for row in rows)],
        "blank": [head, *([*row[:9], *[""] * 6] for row in rows)],
        "yes": [head, *([*row[:9], *(one.replace("0", "") for one in row[9:])] for row in rows)],
        "weather": [[name.replace("travel", "weather") for name in head], *rows],
        "topics": [[name.replace("tag_", "topic_") for name in head], *rows],
        "gap": [head, ["", *rows[0][1:]], *rows[1:]],
        **{f"words_{bad}": [head, [rows[0][0], bad, *rows[0][2:]], *rows[1:]] for bad in ("", "many", "inf")},
        "features": [head[:9], *(row[:9] for row in rows)],
        "id_twice": [[head[0], *head[9:]], *(["A301", *row[9:]] for row in rows)],
        "id_other": [[head[0], *head[9:]], *([f"B{at}", *row[9:]] for at, row in enumerate(rows))],
        "id_keyed": [["key", *head[9:]], *([row[0], *row[9:]] for row in rows)],
        "id_upper": [["ID", *head[9:]], *([row[0], *row[9:]] for row in rows)],
        "id_short": [head[9:], *(row[9:] for row in rows[:8])],
    }
    for name, cells in changed.items():
        Path(f"{name}.csv").write_text("\n".join(map(",".join, cells)) + "\n")
    # A pair that is rated twice; an empty line is no rating, but is counted in the file.
    first = lines("ratings.csv")[1].split(",")
    other = f"{first[0]},{first[1]},{1 if float(first[2]) >= 4 else 5}"
    Path("contrary.csv").write_text("\n".join([*lines("ratings.csv"), "", other]) + "\n")
    data = read_label_table("articles.csv", labels="tag_*", ids="id")
    X, rng = data.X[:40], np.random.RandomState(0)
    labelgap.PlugInClassifier(threshold="train", random_state=0).fit(data.X, data.labels).save(
        "plug.labelgap"
    )
    exposure = rng.uniform(1, 3, (40, 2))
    regressor = labelgap.LowRankRegressor(family="poisson", trace_penalty=0.05, ridge_penalty=0.01)
    regressor.fit(X[:, :2], rng.poisson(exposure), exposure=exposure).save("exposed.labelgap")
    np.savez("exposed.npz", X=X[:, :2], Y=rng.poisson(exposure))
    np.savez("arrays.npz", X=np.zeros((4, 8)), Y=np.zeros((4, 6)))
    np.savez("short.npz", X=X[:, 1:])
    run(f"fit {TABLE} {FIXED} -q --without-data --out without.labelgap")
    os.symlink("new_articles.csv", "link.csv")
    os.mkfifo("pipe.csv")
    Path("folder").mkdir()
    os.chdir(before)
    return folder


@pytest.fixture(autouse=True)
def unchanged(place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No mistake writes, replaces or removes a file."""
    monkeypatch.chdir(place)
    before = snapshot()
    yield
    assert snapshot() == before


def snapshot() -> dict[str, tuple[int, ...]]:
    return {one.path: (one.inode(), one.stat().st_mtime_ns, one.stat().st_size) for one in os.scandir()}


# Options and arguments, by command.
MISTAKES = """
fit -> 2 Missing argument 'DATA'
fitt -> 2 No such command 'fitt'
fit articles.csv -> 1 which columns are labels? Say it with --labels
fit articles.csv --labels tags_* -> 1 'tags_*' in labels matches no column
fit articles.csv --labels tag_* --features id -> 1 'id' is text with 300 different values
fit TABLE --metric micro-f -> 1 Unknown metric 'micro-f'
fit TABLE --metric micro-f11 -> 1 Did you mean 'micro-f1'?
fit TABLE --metric tp/ -> 1 tp/
fit articles.csv --labels words --id id -> 1 is no label
fit TABLE --format exel -> 1 Unknown format 'exel'
fit TABLE --tol 2 -> 1 tol must
fit TABLE --jobs 0 -> 1 Error: --jobs
fit TABLE --device tpu -> 1 device must be 'auto', 'cpu', 'cuda'
fit TABLE --label-weighting 2 -> 1 from 0 to 1
fit TABLE --feature-map cubic -> 2 cubic
fit TABLE --family gamma -> 2 --family
fit TABLE --trace-penalty much -> 2 'much' is neither a number
fit TABLE --flip-rate 1.5 -> 2 to below 1
fit TABLE --rank 0 -> 2 --rank
fit TABLE --seed 99999999999 -> 2 --seed
fit TABLE --quiet --verbose -> 2 it is the opposite of --quiet
fit TABLE --average macro -> 2 it is for a formula
fit TABLE --metric 'macro: tp' --average macro -> 2 says its average
fit TABLE --setting regression --metric micro-f1 -> 2 no use
fit articles.csv --user id --labels tag_* -> 2 no use in the setting 'recommender'
fit TABLE --setting features --positive 4 -> 2 it is for recommender
fit TABLE --setting features --aggregate sum -> 2 no use in the setting 'features'
fit TABLE --setting features --items ages.csv -> 2 it has no use in the setting 'features'
fit articles.csv --setting recommender --impute mean -> 2 it has no use in the setting 'recommender'
fit ratings.csv --positive 4 --without-data -> 2 it has no use in the setting 'recommender'
fit TABLE --memory 300 --without-data -> 2 --without-data keeps none at all
fit TABLE --calibration beta -> 2 calibration
fit articles.csv --labels words --family poisson --calibration sigmoid ->
    2 it has no use in the setting 'regression'
fit TABLE --family gaussian --thresholds auto -> 2 regression
fit TABLE --positive 4 ->
    2 it has no use in the setting 'recommender', which --positive chose ... Leave one of the two out
fit TABLE --lists best.csv ->
    2 it has no use in the setting 'recommender', which --lists chose ... Leave one of the two out
fit TABLE --dislike-value 0.1 ->
    2 it has no use in the setting 'recommender', which --dislike-value chose ... Leave one of the two out
fit TABLE --dislike-value 0.1 --setting features ->
    2 '--dislike-value': it has no use in the setting 'features'; it is for recommender
fit TABLE --subject-to 'recall > 0.9' -> 1 Error: --subject-to holds 'recall > 0.9', which is no
fit TABLE --subject-to 'recall >= 90%' -> 1 Error: --subject-to holds 'recall >= 90%', which is no
fit TABLE --subject-to '' -> 1 Error: --subject-to holds '', which is no
fit TABLE --subject-to 'foo >= 0.5' -> 1 Error: Unknown metric 'foo'
complete TABLE --subject-to recall -> 1 Error: --subject-to holds 'recall', which is no
threshold articles.csv new_articles.csv --subject-to recall ->
    1 Error: --subject-to holds 'recall', which is no
threshold articles.csv new_articles.csv --subject-to 'foo >= 0.5' -> 1 Error: Unknown metric 'foo'
demo --seed 99999999999 -> 2 --seed
predict ARTICLES --all -> 2 it goes with --long
predict ARTICLES --long --what scores -> 2 --long has its own columns
predict ARTICLES --user id -> 2 it is for a recommender
predict ARTICLES --skip-unknown -> 2 it is for a recommender
predict ARTICLES --unknown average -> 2 it is for a recommender
predict ARTICLES --what guesses -> 2 --what
predict ARTICLES --device tpu -> 1 device must be 'auto', 'cpu', 'cuda'
predict counts.labelgap new_articles.csv --what decisions -> 2 a regression has predictions, or scores
predict counts.labelgap new_articles.csv --long -> 2 no yes and no
predict ARTICLES --coverage 1.5 -> 2 above 0 and below 1
predict ARTICLES --guarantee class -> 2 it goes with --coverage
predict ARTICLES --coverage 0.9 --what scores -> 2 it is about decisions
predict counts.labelgap new_articles.csv --coverage 0.9 -> 2 it is for classifiers of rows
predict ARTICLES --coverage 0.9 -> 1 holds nothing out
predict ARTICLES --budget 1 --total-budget 2 -> 2 another limit
predict ARTICLES --exactly -> 2 goes with a number
predict ARTICLES --budget 0 -> 2 neither a whole number
predict ARTICLES --budget 1 --what scores -> 2 about decisions
predict ARTICLES --budget 9 --exactly -> 1 exactly 9 yes in each row
evaluate ARTICLES --user id -> 2 it is for a recommender
evaluate ARTICLES --skip-unknown -> 2 it is for a recommender
evaluate ARTICLES -n 3 -> 2 it is for a recommender
evaluate ARTICLES --unseen-users -> 2 it is for a recommender
evaluate ARTICLES --seed 3 -> 2 it goes with --unseen-users
evaluate ARTICLES --average macro -> 2 it goes with a formula
evaluate ARTICLES --unobserved unlabelled -> 2 so it has no flip rate to correct by
evaluate positives.labelgap yes.csv --per-label -> 2 recorded yes alone
evaluate counts.labelgap new_articles.csv --unobserved negative -> 2 a blank is always missing
evaluate counts.labelgap new_articles.csv --metric micro-f1 -> 2 --metric
evaluate films.labelgap ratings.csv --labels tag_* -> 2 a recommender has users and items
evaluate films.labelgap ratings.csv --unseen-users -n 5 -> 2 judges lists of 20, 50 and 100 alone
evaluate films.labelgap ratings.csv --unseen-users --per-label -> 2 judges lists of 20, 50 and 100 alone
evaluate films.labelgap ratings.csv --unobserved negative --per-label -> 2 the model's own metric only
evaluate films.labelgap ratings.csv --unobserved negative --metric macro-f1 -> 2 the model's own metric only
evaluate films.labelgap ratings.csv --skip-unknown --unknown average -> 2 --skip-unknown leaves them out
evaluate exposed.labelgap exposed.npz -> 1 model.score(X, y, exposure=...)
report exposed.labelgap exposed.npz -> 1 write_report(..., exposure=...)
report films.labelgap ratings.csv --labels x -> 2 --labels
report counts.labelgap new_articles.csv --user id -> 2 --user
report ARTICLES --compare articles.labelgap --compare articles.labelgap -> 1 articles.labelgap is given twice
report ARTICLES --compare counts.labelgap -> 1 was fitted to other features
info --labels x -> 2 it is for a table
info --id x -> 2 it is for a table
info --format csv -> 2 it is for a table
info articles.labelgap --labels x -> 2 it is for a table
info articles.labelgap --id x -> 2 it is for a table
info articles.labelgap --format csv -> 2 it is for a table
info articles.csv --max-unpacked-mb 0 -> 2 --max-unpacked-mb
info articles.csv --max-unpacked-mb -1 -> 2 --max-unpacked-mb
info articles.csv --max-unpacked-mb many -> 2 --max-unpacked-mb
info articles.csv --max-unpacked-mb nan -> 2 --max-unpacked-mb
threshold scores.csv -> 2 give a second file with the labels, or name two columns
threshold scores.csv labels.csv --score-column x -> 2 one file that holds both
threshold scores.csv labels.csv --metric f1 -> 1 does not say how to average
threshold scores.csv labels.csv --subject-to 'precision >= 0.99, micro-accuracy >= 0.99, recall >= 0.99' ->
    1 No threshold gives
threshold scores.csv labels.csv --format arff -> 2 'arff' is no format of tables of numbers
errors TABLE --unobserved unlabelled -> 2 --unobserved negative to judge every blank
errors TABLE --all -n 3 -> 2 -n says how many
errors TABLE -q --flip-rates 0.6 0.5 -> 1 --flip-rates are at least 0, and their sum is below 1
errors articles.csv -> 1 Say it with --labels
errors TABLE --spreadsheet-safe --out a.parquet -> 2 it is about CSV and TSV
recommend films.labelgap --all --spreadsheet-safe --out a.parquet -> 2 --spreadsheet-safe
recommend films.labelgap -> 2 say for whom
recommend films.labelgap --user u1 --all -> 2 say for whom
recommend films.labelgap --user u1 --why --out x.csv -> 2 no column for reasons
recommend films.labelgap --user u1 -n 0 -> 2 -n
recommend films.labelgap --user u1 --diversity 2 -> 2 --diversity
recommend films.labelgap --user u1 --items-encoding latin-1 -> 2 --items-encoding
recommend films.labelgap --user u99 -> 1 The model knows no user 'u99'. Did you mean 'u9'
recommend films.labelgap --user u1 --only 999 -> 1 no item '999'
recommend films.labelgap --all --explore 0.5 -> 1 without item_features
recommend articles.labelgap --user u1 -> 1 is a LowRankClassifier, which has no users; see labelgap predict
recommend films.labelgap --all --at 2024-05-31 -> 2 for the dates of --unavailable
recommend films.labelgap --all --unavailable dated.csv --at noon -> 1 at must be a date
suggest articles.labelgap -> 2 give the table
suggest films.labelgap ratings.csv -> 2 has its ratings
suggest articles.labelgap articles.csv --user u1 -> 2 it is for a recommender
suggest films.labelgap --budget-per-row 2 -> 2 it is for a table
suggest films.labelgap --user u99 -> 1 knows no user 'u99'
update ARTICLES --user id -> 2 it is for a recommender
update films.labelgap ratings.csv --labels tag_* -> 2 a recommender has users and items
update films.labelgap ratings.csv --items-encoding latin-1 -> 2 --items-encoding
split movielens.data --how time --last 2 -> 2 it has no use here
split movielens.data --how leave-last-out --fraction 0.5 -> 2 it has no use here
split movielens.data --time when -> 2 a random split uses no times
split movielens.data --how time --seed 3 -> 2 nothing is random here
split movielens.data --how time --time when -> 1 has no column 'when'
split movielens.data --train x.csv --held-out x.csv -> 1 are both x.csv
split movielens.data --fraction 2 -> 1 strictly between 0 and 1
"""

# What files hold.
CONTENTS = """
fit articles.csv --labels 12 ->
    1 '12' in labels matches no column ... The column with the number 12, counted from 1, is written 12:12.
fit articles.csv --labels tag_* --drop * -> 1 all columns but the ids are left out with --drop
fit articles.csv --labels tag_* --drop tag_* ->
    1 every column that 'tag_*' in labels matches is dropped already
fit even.csv --labels tag_* --id id --encoding utf-16 ->
    1 Leave --encoding out, so that the encoding is found
fit all_yes.csv --labels y -> 1 pass --unobserved negative
fit arrays.npz --categorical x -> 1 --categorical is about columns
fit songs.arff -> 1 which attributes are labels? There is no XML file beside it
fit gaps.arff --labels calm,sad ->
    1 attribute 'pace': '?' is a missing value. Fill it in (--impute median), or leave it out
fit a.csv.bz2 --labels y -> 1 files packed by bzip2 are not read. Unpack it first
fit a.csv.zst --labels y -> 1 files packed by Zstandard are not read
fit a.feather --labels y -> 1 Feather files are not read. Save the table as CSV or Parquet
fit a.jsonl --labels y -> 1 JSON Lines files are not read
complete one_yes.csv --labels y -> 1 all
complete ratings.csv -> 1 holds ratings
errors ratings.csv -> 1 holds ratings of items by users
errors one_yes.csv --labels y -> 1 all 6 known labels are yes
errors all_no.csv --labels y -> 1 all 12 known labels are no
errors unlabelled.csv --labels y -> 1 no label is known
predict new_articles.csv new_articles.csv -> 1 new_articles.csv is not a file that labelgap wrote
predict damaged.labelgap new_articles.csv -> 1 damaged.labelgap
predict articles.labelgap short.npz -> 1 short.npz has 7 features, and the model was fitted to 8
predict articles.labelgap renamed.csv ->
    1 Error: renamed.csv lacks 2 of the 8 features of the model: 'links', 'images'.
predict articles.labelgap words_.csv -> 1 'words'
predict articles.labelgap words_many.csv -> 1 'words'
predict articles.labelgap words_inf.csv -> 1 'words'
evaluate articles.labelgap few.csv -> 1 lacks 1 of the 6 labels of the model: 'tag_data'
evaluate articles.labelgap features.csv --label-file features.csv -> 1 lacks 6 of the 6 labels
evaluate articles.labelgap blank.csv -> 1 No label is observed
evaluate articles.labelgap yes.csv ->
    1 is a yes, so no decision of yes could be wrong ... --unobserved negative
evaluate articles.labelgap features.csv --label-file id_upper.csv -> 1 Give both the same name
report articles.labelgap gap.csv --id id -> 1 the id is missing
update articles.labelgap weather.csv -> 1 lacks 1 of the 6 labels of the model: 'tag_travel'
update articles.labelgap topics.csv --labels topic_* ->
    1 None of the 6 labels of topics.csv is a label of the model ('topic_business'
update articles.labelgap few_features.csv -> 1 lacks 7 of the 8 features of the model
update without.labelgap new_articles.csv ->
    1 does not hold the data that it was fitted to ... leave --without-data out
update plug.labelgap new_articles.csv -> 1 is a PlugInClassifier, which cannot go on learning
threshold scores.csv only_y.csv -> 1 only_y.csv has no column 'x', which the scores are about; it has 'y'
threshold scores.csv short.csv -> 1 scores.csv has 4 rows and short.csv has 1
threshold scores.csv other_ids.csv -> 1 have no id in common ... Name others with --id.
threshold twice_ids.csv labels.csv -> 1 1 id comes more than once: 'a' (rows 1, 2)
threshold scores.csv twice_ids.csv -> 1 Keep one row of each, or name another column with --id.
"""

# Ratings, pairs, tables of items and users, and times.
RATINGS = """
fit ratings.csv --setting recommender -> 1 --positive 4 for 4 and more.
fit ratings.csv --positive 40 ->
    1 no rating is 40 or more, so none is a like. The ratings are from 1 to 5 ... another value for --positive
fit ratings.csv --positive 0.5 -> 1 every rating is 0.5 or more ... --for recommend
fit contrary.csv --positive 4 ->
    1 there are two ratings of item 'film 0' by user 'u0', 5 in line 2 and 1 in line 70.
evaluate films.labelgap contrary.csv ->
    1 there are two ratings of item 'film 0' by user 'u0', 5 in line 2 and 1 in line 70.
update films.labelgap contrary.csv ->
    1 there are two ratings of item 'film 0' by user 'u0', 5 in line 2 and 1 in line 70.
fit u.data --positive 4 -> 1 item 7 by user 1, 5 in line 1 and 2 in line 4.
fit likes.csv --user user --item item ->
    1 Say which one holds the ratings, or --value none where ... Its columns are 'user', 'item', 'date'.
fit likes.csv --value none --positive 4 -> 2 each line is a like
fit stars.csv ->
    1 Its columns are 'user', 'film', 'stars'. ... --user user --item film --value stars --positive 4
fit flags.csv -> 1 such as --user who --item film --value ok.
fit buys.csv -> 1 --user customer --item 'film id' --value none --for recommend
fit ratings.csv --positive 4 --items stars_of_other_films.csv ->
    1 stars_of_other_films.csv has none of the items with ratings; the first here is 1
fit plays.csv --value minutes --positive 5 -> 1 say with --aggregate what becomes of several
fit plays.csv --value minutes --positive 5 --aggregate sum --time day ->
    2 times are used by --half-life and --aggregate last
fit plays.csv --value minutes --positive 5 --half-life 3 -> 1 no column 'timestamp' for times (--time)
fit plays.csv --value minutes --positive 5 --aggregate median -> 2 'median' is not one of
fit plays.csv --user user --item item --value none --aggregate max --positive 3 ->
    2 only --aggregate sum counts them
predict films.labelgap pairs.csv ->
    1 pairs.csv, line 4: the user 'nobody' is not among the 12 users ... --unknown average ... --skip-unknown
predict films.labelgap stranger_pairs.csv --skip-unknown ->
    1 No line has a user and an item that the model knows.
evaluate films.labelgap unknown.csv --unknown raise ->
    1 unknown.csv, line 3: the item 'nothing' is not among the 8 items
recommend films.labelgap --users-file one.txt -> 1 one.txt names no user
recommend films.labelgap --users-file latin.txt ->
    1 Error: latin.txt, line 2: the byte 0xeb is not UTF-8; save the file as UTF-8.
recommend films.labelgap --users ages.csv -> 1 fitted without a table of users
recommend films.labelgap --all --unavailable soon.csv ->
    1 soon.csv, item 1: what stands after the item must be a date
recommend films.labelgap --all --unavailable three_parts.csv -> 1 'a,b,c' has 3 parts
recommend films.labelgap --all --unavailable no_item.csv -> 1 knows no item 'nothing'
update films.labelgap ratings.csv --users ages.csv -> 1 fitted without a table of users
fold-in films.labelgap ratings.csv --users ages.csv -> 1 fitted without a table of users
fold-in articles.labelgap ratings.csv -> 1 ratings are folded into a recommender ... labelgap update
fold-in counts.labelgap ratings.csv -> 1 ratings are folded into a recommender ... labelgap update
fold-in films.labelgap strangers.csv -> 1 Neither the user 'nobody' nor the item 'nothing' is known
split bad_times.csv --how time ->
    1 bad_times.csv, line 2, column 'timestamp', is 'yesterday', which is no number or date
split mixed_times.csv --how time -> 1 mixed_times.csv, line 3, column 'timestamp', is a number
split late_times.csv --how time -> 1 late_times.csv, line 3, column 'timestamp', is a number
split blank_times.csv --how time -> 1 line 3, column 'timestamp', is '', which is no number or date
split nan_times.csv --how time -> 1 nan_times.csv, line 3, column 'timestamp', has no time
"""

# What is to be written: inputs, devices and pipes are never replaced, and other files not unasked.
LOST = """
fit TABLE --out articles.csv
complete TABLE --out articles.csv
errors TABLE --out articles.csv
predict ARTICLES --out new_articles.csv
predict articles.labelgap link.csv --out new_articles.csv
evaluate ARTICLES --out new_articles.csv
suggest ARTICLES --out new_articles.csv
update ARTICLES --out new_articles.csv
report ARTICLES --out articles.labelgap
report ARTICLES --compare plug.labelgap --out plug.labelgap
export articles.labelgap articles.labelgap
threshold new_articles.csv new_articles.csv --out new_articles.csv
threshold new_articles.csv new_articles.csv --curve new_articles.csv
split new_articles.csv --train new_articles.csv
recommend films.labelgap --users-file dated.csv --out dated.csv
fit ratings.csv --positive 4 --lists ratings.csv
"""
DEVICES = """
fit TABLE --out pipe.csv
predict ARTICLES --out pipe.csv
predict ARTICLES --out /dev/null
report ARTICLES --out pipe.csv
export articles.labelgap pipe.csv
"""
OUTPUTS = """
fit TABLE --out keep.labelgap ->
    1 Error: keep.labelgap exists already. Say --force to replace it, or choose another --out.
fit ratings.csv --positive 4 --lists short.csv -> 1 short.csv exists already. Say --force to replace it
complete TABLE --out short.csv -> 1 --force
errors TABLE --out short.csv -> 1 exists already
predict ARTICLES --out short.csv -> 1 exists already
evaluate ARTICLES --out short.csv -> 1 exists already
suggest ARTICLES --out short.csv -> 1 exists already
report ARTICLES --out keep.txt -> 1 exists already
export articles.labelgap keep.onnx -> 1 choose another TARGET
update ARTICLES --out keep.labelgap -> 1 keep.labelgap exists already
fold-in films.labelgap ratings.csv --out keep.labelgap -> 1 keep.labelgap exists already
threshold scores.csv labels.csv --out short.csv -> 1 short.csv exists already
threshold scores.csv labels.csv --curve short.csv -> 1 choose another --curve
threshold articles.csv new_articles.csv --out a.csv --curve a.csv -> 1 --out and --curve are both a.csv
demo --picture keep.png -> 1 keep.png exists already. Say --force
demo --picture dem.txt -> 1 dem.txt: pictures are not saved in the format 'txt'. Let the name end in .png
demo --picture dem -> 1 pictures need a format
demo --picture nowhere/keep.png -> 1 no folder
fit TABLE --out nowhere/m.labelgap -> 1 there is no folder nowhere
fit TABLE --out folder -> 1 folder is a folder
fit ratings.csv --positive 4 --lists model.labelgap -> 2 the model itself is saved under that name
fit ratings.csv --positive 4 --lists lists.xlsx ->
    1 '.xlsx' does not say what format to write. Let the name end in .csv
predict ARTICLES --out out.xlsx -> 1f Let the name end in .csv, .tsv, .parquet or .npz
predict ARTICLES --out out.txt -> 1f Let the name end in .csv, .tsv, .parquet or .npz
predict ARTICLES --out out -> 1f Let the name end in .csv, .tsv, .parquet or .npz
predict ARTICLES --out out.csv.bz2 -> 1f Let the name end in .csv, .tsv, .parquet or .npz
split movielens.data --train x.npy -> 1 does not say what format
"""


def in_full(command: str) -> str:
    return command.replace("TABLE", TABLE).replace("ARTICLES", "articles.labelgap new_articles.csv")


def cases(table: str) -> Iterator[tuple[str, str, list[str]]]:
    """Command, exit code and the parts of what is said."""
    for line in table.strip().replace(" ->\n    ", " -> ").splitlines():
        command, told = line.split(" -> ")
        code, said = told.split(" ", 1)
        yield in_full(command), code, said.split(" ... ")


IS_READ = "is read by this command, and what it holds would be lost"


def all_say(commands: str, said: str) -> str:
    return "\n".join(f"{command} -> 1f {said}" for command in commands.strip().splitlines())


@pytest.mark.parametrize(
    "table",
    [MISTAKES, CONTENTS, RATINGS, OUTPUTS, all_say(LOST, IS_READ), all_say(DEVICES, "is a device or a pipe")],
    ids=["use", "contents", "ratings", "outputs", "lost", "devices"],
)
def test_mistakes_are_told_in_one_line_and_change_nothing(table: str) -> None:
    wrong = []
    for command, code, parts in cases(table):
        for more in ("", " --force") if "f" in code else ("",):
            told = error_of(command + more, code=int(code[0]))
            if not re.search(".*".join(map(re.escape, parts)), told):
                wrong.append(f"{command}{more}\n  says   {told}\n  and not {' ... '.join(parts)}")
            if code[0] == "1":
                assert "Error: " in told, command
            if "f" in code:
                assert "Say --force" not in told, command
            if command.startswith("demo"):
                continue
            # Whoever asks for JSON is told the same.
            answer = run_json(command + more, code=int(code[0]))
            assert answer["error"]["exit_code"] == int(code[0]), command
            if not all(part.removeprefix("Error: ") in answer["error"]["message"] for part in parts):
                wrong.append(
                    f"{command}{more} --json\n  says   {answer['error']['message']}\n  and not {parts}"
                )
    assert not wrong, "\n".join(wrong)


def test_advice_is_about_options_that_the_command_has() -> None:
    for command in ("a.feather --labels y", "a.csv.bz2 --labels y"):
        assert "--format" not in error_of(f"fit {command}")
    for bad in ("", "many", "inf"):
        told = error_of(f"predict articles.labelgap words_{bad}.csv")
        assert "--drop" not in told
        assert "--categorical" not in told
    assert "fold_in" not in error_of("predict films.labelgap pairs.csv")
    assert "'?' is a missing value" not in error_of("fit songs.arff")
    assert "If each line is a rating" not in error_of("fit articles.csv")
    assert "Usage: labelgap" in run("", code=2).output


def test_errors_in_json_have_their_class() -> None:
    for command, code, kind in (
        ("fit articles.csv --labels nothing_*", 1, "DataFileError"),
        ("evaluate articles.labelgap nowhere.csv", 2, "Usage"),
    ):
        answer = run_json(command, code=code)
        assert (answer["error"]["type"], answer["warnings"]) == (kind, [])


# -- what a table of ratings is told to say ------------------------------------------------------------------

SUGGESTED = [
    ("created", "1281940000", "--value none --for recommend"),
    ("day", "14871", "--value none --for recommend"),
    ("seen", "1281940000", "--value none --for recommend"),
    ("seen", "20240301", "--value none --for recommend"),
    ("order", "0 1 2 3 4 5 6 7", "--value none --for recommend"),
    ("sessionid", "3 4", "--value none --for recommend"),
    ("event,transactionid", "view, buy,17", "--value none --for recommend"),
    ("unix,stars", "1281940000,5 1281940000,2", "--value stars --positive 4"),
    ("age,stars", "31,5 32,2", "--value stars --positive 4"),
    ("times_played", "3 1234567", "--value times_played --positive 925926"),
    ("fun", "1 5", "--value fun --positive 4"),
    ("rating", "0.25 1", "--value rating --positive 0.75"),
    ("rating", "-1 1", "--value rating --positive 0.75"),
    ("rating", "-4 -2", "--value rating --positive -2.5"),
    ("rating", "0 1", "--value rating."),
]


def test_only_ratings_and_counts_are_suggested_as_values(tmp_path: Path) -> None:
    path = tmp_path / "films.csv"
    for header, values, options in SUGGESTED:
        given = values.split(" ")
        cells = "".join(f"u{at % 3},film {at},{given[at % len(given)]}\n" for at in range(8))
        path.write_text(f"user,film,{header}\n{cells}")
        assert f"such as --user user --item film {options}" in error_of("fit", path), (header, values)
    for header in ("when", "created_at", "unix_time"):
        for time in ("2024-05-31", "1717156800"):
            path.write_text(f"user,item,{header}\nann,Ran,{time}\nbob,Jaws,{time}\n")
            said = error_of("fit --for recommend", path)
            assert "--value none" in said
            assert f"--value {header}" not in said
            path.write_text(f"user,item,{header},stars\nann,Ran,{time},3\nbob,Jaws,{time},4\n")
            assert "such as --value stars," in error_of("fit --for recommend", path)


# -- ids -----------------------------------------------------------------------------------------------------

WITH_IDS = {
    "fit": "fit DATA --labels tag_*",
    "complete": "complete DATA --labels tag_*",
    "errors": "errors DATA --labels tag_*",
    "predict": "predict articles.labelgap DATA",
    "evaluate": "evaluate articles.labelgap DATA",
    "update": "update articles.labelgap DATA --out other.labelgap",
    "report": "report articles.labelgap DATA",
    "suggest": "suggest articles.labelgap DATA",
    "threshold": "threshold DATA --score-column words --label-column tag_sport",
    "info": "info DATA",
}


@pytest.mark.parametrize("name", WITH_IDS)
def test_errors_about_the_ids_say_how_they_are_named(name: str) -> None:
    command = WITH_IDS[name]
    assert "new_articles.csv has no column 'nope' for the ids (--id)" in error_of(
        command.replace("DATA", "new_articles.csv"), "--id", "nope"
    )
    if name != "info":
        told = error_of(command.replace("DATA", "gap.csv"), "--id", "id")
        assert "line 2, column 'id': the id is missing" in told
        assert "or name another column with --id." in told
    if name in ("evaluate", "update", "report", "suggest", "predict", "threshold"):
        told = error_of(command.replace("DATA", "new_articles.csv"), "--id", "words")
        assert "'words' in " in told
        assert "is the id column (--id) already" in told
    if name not in ("info", "threshold"):
        told = error_of(command.replace("DATA", "arrays.npz").replace(" --labels tag_*", ""), "--id", "id")
        assert told == (
            "Error: arrays.npz: --id chooses among named columns, which a file of the format npz does not "
            "have."
        )
    if name in ("fit", "complete", "errors", "evaluate", "report", "update", "suggest"):
        command = command.replace("DATA", "features.csv").replace(" --labels tag_*", "")
        command += "" if name in ("fit", "complete", "errors") else " --labels tag_*"
        for second, said in {
            "id_twice.csv": "Keep one row of each, or name another column with --id.",
            "id_other.csv": "correct the ids, or name another column with --id.",
            "id_keyed.csv --id id": "id_keyed.csv has no column 'id' for the ids (--id)",
            "id_short.csv": "Name the column of ids in both files with --id to match them by it.",
        }.items():
            assert said in error_of(f"{command} --label-file {second}"), second


# -- paths ---------------------------------------------------------------------------------------------------

# Every argument that names a file to read, in every command; FILE is where it is.
INPUTS = """
fit FILE --labels tag_*
fit TABLE --label-file FILE
fit ratings.csv --positive 4 --items FILE
fit ratings.csv --positive 4 --users FILE
update FILE new_articles.csv
update articles.labelgap FILE
update articles.labelgap new_articles.csv --label-file FILE
update films.labelgap ratings.csv --items FILE
update films.labelgap ratings.csv --users FILE
fold-in FILE ratings.csv
fold-in films.labelgap FILE
fold-in films.labelgap ratings.csv --items FILE
fold-in films.labelgap ratings.csv --users FILE
predict FILE new_articles.csv
predict articles.labelgap FILE
evaluate FILE new_articles.csv
evaluate articles.labelgap FILE
evaluate articles.labelgap new_articles.csv --label-file FILE
report FILE new_articles.csv
report articles.labelgap FILE
report articles.labelgap new_articles.csv --label-file FILE
report articles.labelgap new_articles.csv --compare FILE
threshold FILE new_articles.csv
threshold new_articles.csv FILE
complete FILE --labels tag_*
complete TABLE --label-file FILE
errors FILE --labels tag_*
errors TABLE --label-file FILE
suggest FILE articles.csv
suggest articles.labelgap FILE
suggest articles.labelgap articles.csv --label-file FILE
suggest films.labelgap --items FILE
recommend FILE --user u1
recommend films.labelgap --users-file FILE
recommend films.labelgap --users FILE
recommend films.labelgap --user u1 --items FILE
recommend films.labelgap --user u1 --only-file FILE
recommend films.labelgap --user u1 --not-file FILE
recommend films.labelgap --user u1 --unavailable FILE
split FILE
export FILE model.onnx
info FILE
""".strip().splitlines()


def test_input_that_is_no_file_is_told_in_one_way(tmp_path: Path) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("a,b\n1,2\n")
    secret.chmod(0)
    problems = {
        "nowhere.csv": "does not exist.",
        "articles.csv/inside.csv": "does not exist.",
        "folder": "is a folder, not a file.",
    }
    if not os.access(secret, os.R_OK):
        # Root may read everything.
        problems[str(secret)] = "is not readable."
    for command in INPUTS:
        for name, problem in problems.items():
            told = error_of(command.replace("TABLE", TABLE).replace("FILE", name), code=2)
            assert "Invalid value for '" in told, command
            assert f"': path '{name}' {problem}".replace(" ", "") in told.replace(" ", ""), command


# Options that name what is written.
WRITTEN = {"--out", "--lists", "--checkpoint", "--curve", "--train", "--held-out", "--picture", "TARGET"}


def test_every_path_that_is_read_is_among_those() -> None:
    given = [command.split() for command in INPUTS]
    # Arguments have no names where they are given.
    tried = Counter(
        (one[0], before if (before := one[one.index("FILE") - 1]).startswith("--") else "") for one in given
    )
    read: Counter[tuple[str, str]] = Counter()
    for command in COMMANDS:
        runs = load_command(command)
        kinds = get_type_hints(runs.callback)
        for parameter in runs.params:
            names = {*parameter.opts, parameter.metavar}
            if "Path" in str(kinds.get(parameter.name)) and not names & WRITTEN:
                read[command, parameter.opts[0] if parameter.opts[0].startswith("-") else ""] += 1
    assert tried == read


@pytest.mark.skipif(os.geteuid() == 0, reason="for root every folder is writable")
def test_a_folder_that_may_not_be_written_to_is_found_before_the_work(tmp_path: Path) -> None:
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o500)
    assert "may not write" in error_of(f"fit {TABLE} --out", locked / "m.labelgap")
