"""Tables of data bases: the rows of a query, by a URL in which a password is never shown."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tacit.core import limits
from tacit.core.errors import ConfigError, DataError
from tacit.core.extras import require
from tacit.streams.reading.frames import as_column
from tacit.streams.reading.options import Reading
from tacit.streams.reading.source import VALUE_BYTES, Source

ROWS_AT_ONCE = 4096
VARIABLE = re.compile(r"\$\{(\w+)\}")


@dataclass(frozen=True)
class SqlQuery:
    """A query of a data base, as a table for `read_table`.

    Args:
      url: Address as SQLAlchemy has it, e.g. ``"sqlite:///visits.db"`` or
        ``"postgresql+psycopg://reader:${DB_PASSWORD}@host/clinic"``; ``${NAME}`` stands for a variable of the
        environment. It needs ``pip install 'tacit[sql]'`` and the driver of the data base.
      query: SELECT, whose columns are those of the table. It runs in a transaction that is rolled back, in SQLite in
        one that may not write. Some data bases keep a DROP all the same: use a login that may only read.

    Example:
      >>> import sqlite3, tacit, tempfile
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     with sqlite3.connect(f"{folder}/visits.db") as base:
      ...         _ = base.execute("CREATE TABLE visits (age REAL, again TEXT)")
      ...         _ = base.executemany("INSERT INTO visits VALUES (?, ?)", [(31, "no"), (64, "yes")])
      ...     base.close()
      ...     query = tacit.streams.SqlQuery(f"sqlite:///{folder}/visits.db", "SELECT * FROM visits")
      ...     tacit.streams.read_table(query, label="again")
      Table(2 rows, 1 columns, binary)
    """

    url: str
    query: str

    def __repr__(self) -> str:
        return f"SqlQuery({self.shown!r}, {self.query!r})"

    @property
    def shown(self) -> str:
        """Kind, host and name of the data base: no user, no password."""
        try:
            url = _url(self.url)
        except ConfigError:
            return "a data base"
        return f"{url.drivername}://{url.host or ''}/{url.database or ''}"


def has_password(url: str) -> bool:
    """Whether a password stands in a URL, other than as a variable of the environment."""
    found = re.match(r"[^/]*//[^/@]*:([^@]*)@", url)
    settings = re.findall(r"[?&](?:password|passwd|pwd|token|secret)=([^&]*)", url, re.IGNORECASE)
    return any(VARIABLE.sub("", each) for each in (*([found[1]] if found else ()), *settings))


def open_query(data: SqlQuery, reading: Reading) -> Source:
    """Run a query, and open its rows as a table.

    Args:
      data: URL and query.
      reading: Marks in columns of text.
    """
    alchemy = require("sqlalchemy", extra="sql", purpose="a query")
    require("pyarrow", extra="data")
    name = f"the query of {data.shown}"
    url = _url(VARIABLE.sub(_from_environment, data.url))
    lite = url.get_backend_name() == "sqlite"
    if lite and url.database not in (None, "", ":memory:") and not url.query and not Path(url.database).is_file():
        raise DataError(f"{name}: there is no such file; check the URL (this folder is {Path.cwd()})")
    try:
        engine = alchemy.create_engine(url)
    except (alchemy.exc.SQLAlchemyError, ImportError) as fault:
        reason = getattr(fault, "name", None) or type(fault).__name__
        raise ConfigError(f"{name}: no driver for {url.drivername!r} ({reason}); install it by pip") from None
    try:
        with engine.connect() as connection:
            if lite:
                connection.exec_driver_sql("PRAGMA query_only = ON")
            result = connection.execute(alchemy.text(data.query))
            names = tuple(result.keys())
            rows: list[Any] = []
            while some := result.fetchmany(ROWS_AT_ONCE):
                rows += some
                limits.refuse_beyond(len(rows) * len(names) * VALUE_BYTES, f"{name}: {len(rows):,} rows", DataError)
            connection.rollback()
    except alchemy.exc.SQLAlchemyError as fault:
        said = str(getattr(fault, "orig", None) or fault).partition("\n")[0]
        password = url.password
        said = said.replace(str(password), "***") if password else said
        raise DataError(f"{name}: {said}; mend the query or the URL") from None
    finally:
        engine.dispose()
    if len(set(names)) < len(names):
        raise DataError(f"{name}: two columns have one name; give one another by AS")
    columns = {each: as_column([row[k] for row in rows]) for k, each in enumerate(names)}
    return Source(
        name, names, names, columns.__getitem__, lambda row: f"row {row + 1} (the first is row 1)", (), reading
    )


def _url(url: str) -> Any:
    alchemy = require("sqlalchemy", extra="sql", purpose="a query")
    try:
        return alchemy.make_url(url)
    except (alchemy.exc.ArgumentError, ValueError):
        raise ConfigError(
            "the URL of the data base is none that can be read; expected one like sqlite:///visits.db or "
            "postgresql+psycopg://reader:${DB_PASSWORD}@host/clinic"
        ) from None


def _from_environment(found: re.Match[str]) -> str:
    value = os.environ.get(found[1])
    if value is None:
        raise ConfigError(f"the URL of the data base names ${{{found[1]}}}, but there is no such variable; set it")
    from urllib.parse import quote

    return quote(value, safe="")
