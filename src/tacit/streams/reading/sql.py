"""Tables of data bases: the rows of a query, by a URL in which a password is never shown."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
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
        return shown(self.url)


class DataBase:
    """A data base by its URL, of which messages show neither user nor password."""

    def __init__(self, url: str, name: str | None = None) -> None:
        """Take a URL as `SqlQuery` has it; `name` is how messages call the data base."""
        self.shown = name or shown(url)
        self._url = _url(VARIABLE.sub(_from_environment, url))
        self._lite = self._url.get_backend_name() == "sqlite"

    def engine(self) -> Any:
        """Return SQLAlchemy's engine; the driver has to be installed, and a file to be there."""
        alchemy = require("sqlalchemy", extra="sql", purpose="a query")
        file = self._url.database
        if self._lite and file not in (None, "", ":memory:") and not self._url.query and not Path(file).is_file():
            raise DataError(f"{self.shown}: there is no such file; check the URL (this folder is {Path.cwd()})")
        try:
            return alchemy.create_engine(self._url, hide_parameters=True)
        except (alchemy.exc.SQLAlchemyError, ImportError) as fault:
            reason = getattr(fault, "name", None) or type(fault).__name__
            raise ConfigError(
                f"{self.shown}: no driver for {self._url.drivername!r} ({reason}); install it by pip (of PostgreSQL: "
                "pip install 'tacit[postgres]')"
            ) from None

    @contextmanager
    def reading(self, engine: Any) -> Iterator[Any]:
        """Open a connection whose transaction is rolled back, in SQLite one that may not write."""
        alchemy = require("sqlalchemy", extra="sql", purpose="a query")
        try:
            with engine.connect() as connection:
                if self._lite:
                    connection.exec_driver_sql("PRAGMA query_only = ON")
                yield connection
                connection.rollback()
        except alchemy.exc.SQLAlchemyError as fault:
            said = str(getattr(fault, "orig", None) or fault).partition("\n")[0]
            password = self._url.password
            said = said.replace(str(password), "***") if password else said
            raise DataError(f"{self.shown}: {said}; mend the query or the URL") from None

    def probe(self, engine: Any) -> None:
        """Connect, or say why that is not possible."""
        with self.reading(engine):
            pass

    def rows(self, engine: Any, statement: Any) -> list[dict[str, Any]]:
        """Return all rows of a statement by the names of their columns."""
        with self.reading(engine) as connection:
            return [dict(row) for row in connection.execute(statement).mappings()]


def shown(url: str) -> str:
    """Return kind, host and name of a data base: no user, no password."""
    try:
        found = _url(url)
    except ConfigError:
        return "a data base"
    return f"{found.drivername}://{found.host or ''}/{found.database or ''}"


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
    require("sqlalchemy", extra="sql", purpose="a query")
    require("pyarrow", extra="data")
    name = f"the query of {data.shown}"
    base = DataBase(data.url, name)
    engine = base.engine()
    rows: list[Any] = []
    try:
        with base.reading(engine) as connection:
            result = connection.execute(require("sqlalchemy", extra="sql").text(data.query))
            names = tuple(result.keys())
            while some := result.fetchmany(ROWS_AT_ONCE):
                rows += some
                limits.refuse_beyond(len(rows) * len(names) * VALUE_BYTES, f"{name}: {len(rows):,} rows", DataError)
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
