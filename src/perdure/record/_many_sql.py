"""The SQL behind `many`: columns of each file, which files are odd, and the matrix of every run.

No name of a file or a task ever becomes SQL: lists of files are DuckDB variables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .costs_file import COST_COLUMNS
from .points import KINDS

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "COLUMNS",
    "JUDGE",
    "REJECTED",
    "REQUIRED",
    "TABLES",
    "VIEWS",
    "holding",
    "scan",
    "view",
]

COLUMNS = {
    "points": {
        "step": "BIGINT",
        "trained": "VARCHAR",
        "tested": "VARCHAR",
        "kind": "VARCHAR",
        "score": "DOUBLE",
        "n": "BIGINT",
    },
    "costs": {"task": "VARCHAR"} | dict.fromkeys(COST_COLUMNS, "DOUBLE"),
    "gradients": {
        "step": "BIGINT",
        "trained": "VARCHAR",
        "plasticity": "DOUBLE",
        "stability": "DOUBLE",
    },
}
REQUIRED = {
    "points": {"step", "tested", "score"},
    "costs": {"task"},
    "gradients": {"step", "plasticity", "stability"},
}
# Nothing is guessed; a folder seed=1 is a name and not a column, and .gz in a name means nothing.
CSV = (
    "auto_detect=false, header=true, delim=',', quote='\"', escape='\"', nullstr='', "
    "compression='none', hive_partitioning=false, filename=true"
)


def scan(table: str, header: Sequence[str], variable: str, *, as_text: bool = False) -> str:
    """Return the SELECT of all columns of a table, from the files that a variable lists.

    As text it leaves out lines that are no CSV and says so in `reject_errors`.
    """
    types = dict.fromkeys(COLUMNS[table], "VARCHAR") if as_text else COLUMNS[table]
    read = ", ".join(f"'{name}': '{types[name]}'" for name in header)
    missing = {name: "'probe'" if name == "kind" else f"NULL::{types[name]}" for name in types}
    chosen = ", ".join(name if name in header else f"{missing[name]} AS {name}" for name in types)
    more = ", store_rejects=true, rejects_limit=1" if as_text else ""
    files = f"read_csv(getvariable('{variable}'), columns={{{read}}}, {CSV}{more})"
    return f"SELECT filename AS file, {chosen} FROM {files}"  # noqa: S608 - names from COLUMNS


def holding(table: str) -> str:
    """Return the statement that keeps `rows`, read by us: None, NaN and -1 are nothing."""
    nothing = {"VARCHAR": "''", "DOUBLE": "'nan'", "BIGINT": "-1"}
    columns = ", ".join(
        f"nullif({name}::{type_}, {nothing[type_]}::{type_})"
        for name, type_ in COLUMNS[table].items()
    )
    return f"INSERT INTO held.{table} SELECT file, {columns} FROM rows"  # noqa: S608 - as above


def view(table: str, sources: Sequence[str]) -> str:
    """Return the statement that makes the view of a table from all its sources."""
    files = " UNION ALL ".join(f"({source})" for source in sources)
    columns = ", ".join(COLUMNS[table])
    return (
        f"CREATE VIEW {table} AS SELECT run, {columns} "  # noqa: S608 - as above
        f"FROM ({files}) JOIN held.files USING (file)"
    )


WHOLE = "regexp_full_match({}, '0|[1-9][0-9]{{0,17}}')"
NUMBER = (
    "(regexp_full_match({0}, '-?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][-+]?[0-9]+)?') "
    "AND isfinite(TRY_CAST({0} AS DOUBLE)))"
)
NORM = f"({{0}} IS NULL OR {NUMBER} AND TRY_CAST({{0}} AS DOUBLE) >= 0)"
# Files of which every line is one that our reader takes, and takes as DuckDB does. Stricter than
# it is: the other files are read by it. Costs are short, and all of them are left to it.
JUDGE = {
    "points": f"""
        WITH cells AS (
            SELECT file, step, kind <> 'initial' AS updated, count(*) > 1 AS again,
                min(trained) AS first, max(trained) AS last, count(trained) < count(*) AS blank,
                bool_and(coalesce({WHOLE.format("step")} AND tested IS NOT NULL AND kind IN {KINDS}
                    AND {NUMBER.format("score")} AND TRY_CAST(score AS DOUBLE) BETWEEN low AND high
                    AND (n IS NULL OR n <> '0' AND {WHOLE.format("n")}), false)) AS fit
            FROM lines JOIN held.files USING (file) GROUP BY file, step, kind, tested
        ), steps AS (
            SELECT file, bool_and(fit) AND NOT bool_or(again) AS fit,
                min(first) FILTER (updated) AS first, max(last) FILTER (updated) AS last,
                bool_or(updated AND blank) AS blank
            FROM cells GROUP BY file, step
        )
        SELECT file FROM steps GROUP BY file HAVING bool_and(fit)
            AND NOT coalesce(bool_or(first <> last), false)
            AND NOT (bool_or(blank) AND count(first) > 0)""",  # noqa: S608 - as above
    "gradients": f"""
        SELECT file FROM lines GROUP BY file HAVING bool_and(coalesce(
            {WHOLE.format("step")} AND strlen(concat(trained)) >= 0
            AND {NORM.format("plasticity")} AND {NORM.format("stability")}, false))
        """,  # noqa: S608 - as above
}
REJECTED = """
    SELECT DISTINCT file_path FROM reject_errors JOIN reject_scans USING (scan_id, file_id)"""
TABLES = [
    "SET enable_progress_bar = false",
    "SET pandas_analyze_sample = 0",  # None at first does not mean None throughout
    "CREATE SCHEMA held",
    "CREATE TABLE held.runs (run VARCHAR, finished BOOLEAN, description VARCHAR)",
    "CREATE TABLE held.files (file VARCHAR, run VARCHAR, low DOUBLE, high DOUBLE)",
    "CREATE VIEW runs AS FROM held.runs",
    *(
        f"CREATE TABLE held.{table} (file VARCHAR, {', '.join(map(' '.join, types.items()))})"
        for table, types in COLUMNS.items()
    ),
]
# R[i, j] of every run that has a matrix, by the rules of Points.matrix and Points.finished.
CELLS = """
    WITH scored AS MATERIALIZED (
        SELECT * FROM main.points WHERE kind <> 'initial' AND trained IS NOT NULL
    ), spans AS (
        SELECT run, trained AS task, max(step) AS last FROM scored GROUP BY ALL
    ), ends AS (
        SELECT run, max(last) AS last, arg_max(task, last) AS task, count(*) AS tasks
        FROM spans GROUP BY run
    ), begun AS (
        SELECT run, ends.last, tasks, max(spans.last) FILTER (spans.task <> ends.task) AS before
        FROM ends JOIN spans USING (run) GROUP BY ALL
    ), tested_whole AS (
        SELECT run, count(DISTINCT tested) AS tasks
        FROM scored JOIN begun USING (run)
            SEMI JOIN spans ON scored.run = spans.run AND tested = task
        WHERE kind = 'full' AND step > coalesce(before, -1)
        GROUP BY run
    ), ended AS (
        SELECT run, CASE WHEN finished IS NOT FALSE OR tested_whole.tasks = begun.tasks
            THEN last ELSE before END AS final_step
        FROM begun JOIN main.runs USING (run) LEFT JOIN tested_whole USING (run)
    ), kept AS (
        SELECT scored.* FROM scored JOIN ended USING (run) WHERE step <= final_step
    ), visits AS (
        SELECT run, trained AS task, min(step) AS first, max(step) AS last FROM kept GROUP BY ALL
    ), learned AS (
        SELECT run, task, row_number() OVER in_order AS place,
            coalesce(lag(last) OVER in_order > first, false) AS returns
        FROM visits WINDOW in_order AS (PARTITION BY run ORDER BY first)
    ), sizes AS (
        SELECT run, count(*) AS tasks FROM learned GROUP BY run HAVING NOT bool_or(returns)
    ), cells AS (
        SELECT kept.run, i.place AS i, j.place AS j, trained, tested,
            arg_max({'score': score, 'n': n, 'kind': kind}, (kind = 'full', step)) AS entry
        FROM kept JOIN learned AS i ON kept.run = i.run AND trained = i.task
            JOIN learned AS j ON kept.run = j.run AND tested = j.task
        GROUP BY ALL
    )
    SELECT run, i, j, tasks, trained, tested, entry.score, entry.n, entry.kind
    FROM cells JOIN sizes USING (run)
    QUALIFY count(*) FILTER (i = j) OVER (PARTITION BY run) = tasks"""
FINAL = "SELECT run, trained, tested, score, n, kind FROM held.cells ORDER BY run, i, j"
ACC = """
    SELECT run, max(tasks) AS tasks, CASE WHEN count(*) FILTER (i = tasks) = max(tasks)
        THEN favg(score) FILTER (i = tasks) END AS acc
    FROM runs LEFT JOIN held.cells USING (run) GROUP BY run ORDER BY run"""
VIEWS = [
    f"CREATE VIEW held.cells AS {CELLS}",
    f"CREATE VIEW final AS {FINAL}",
    f"CREATE VIEW acc AS {ACC}",
]
