"""Tokens of one line of assembly, with errors by line and column."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from autotune.errors import ProgramError

_TOKEN = re.compile(
    r"""(?P<blank>[ \t\r]+|\#.*)
    |(?P<string>"(?:[^"\\]|\\.)*")
    |(?P<number>[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?)
    |(?P<word>[A-Za-z_][A-Za-z_0-9]*|\.[a-z]+)
    |(?P<mark>[][()=+\-*@,?!])""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Token:
    """One token: its kind (string, number, word, mark, end), text and column from 1."""

    kind: str
    text: str
    column: int


class Scanner:
    """A cursor over the tokens of one line; comments begin with ``#``."""

    def __init__(self, text: str, line: int) -> None:
        self.line = line
        self.place = 0
        self.tokens = self._split(text)

    def _split(self, text: str) -> list[Token]:
        tokens = []
        offset = 0
        while offset < len(text):
            match = _TOKEN.match(text, offset)
            if match is None:
                raise self.error(f"unexpected {text[offset]!r}", offset + 1)
            kind = str(match.lastgroup)
            if kind != "blank":
                tokens.append(Token(kind, match.group(), offset + 1))
            offset = match.end()
        tokens.append(Token("end", "", len(text) + 1))
        return tokens

    @property
    def next(self) -> Token:
        """The token under the cursor."""
        return self.tokens[self.place]

    @property
    def done(self) -> bool:
        """True at the end of the line."""
        return self.next.kind == "end"

    def error(self, reason: str, column: int | None = None) -> ProgramError:
        """Return a ``ProgramError`` at this line and a column, by default the cursor's."""
        column = self.next.column if column is None else column
        return ProgramError(f"line {self.line}, column {column}: {reason}")

    def found(self) -> str:
        """Return the token under the cursor, for a message."""
        return "the end of the line" if self.done else repr(self.next.text)

    def accept(self, mark: str) -> bool:
        """Step over ``mark`` if it comes next; return True if it did."""
        if self.next.kind != "mark" or self.next.text != mark:
            return False
        self.place += 1
        return True

    def expect(self, mark: str) -> None:
        """Step over ``mark``. Raises ``ProgramError`` if another token comes next."""
        if not self.accept(mark):
            raise self.error(f"expected {mark!r}, found {self.found()}")

    def word(self, what: str) -> str:
        """Take a word; ``what`` describes it in the error."""
        return self._take("word", what).text

    def string(self, what: str) -> str:
        """Take a quoted string."""
        token = self._take("string", what)
        try:
            return str(json.loads(token.text))
        except json.JSONDecodeError as error:
            raise self.error(f"{what}: {error.msg}", token.column) from None

    def integer(self, what: str) -> int:
        """Take a whole number with an optional minus sign."""
        sign = -1 if self.accept("-") else 1
        token = self._take("number", what)
        if not token.text.isdigit() or len(token.text) > 20:
            raise self.error(f"{what}: {token.text} is not a whole number in range", token.column)
        return sign * int(token.text)

    def real(self, what: str) -> float:
        """Take a number, ``inf`` or ``nan`` with an optional minus sign."""
        sign = -1.0 if self.accept("-") else 1.0
        if self.next.kind == "word" and self.next.text in ("inf", "nan"):
            return sign * float(self._take("word", what).text)
        return sign * float(self._take("number", what).text)

    def list(self, what: str) -> list[int]:
        """Take ``(1, 2, 3)``; the list may be empty."""
        self.expect("(")
        numbers: list[int] = []
        while not self.accept(")"):
            if numbers:
                self.expect(",")
            numbers.append(self.integer(what))
        return numbers

    def finish(self) -> None:
        """Raise ``ProgramError`` unless the line has ended."""
        if not self.done:
            raise self.error(f"unexpected {self.found()} after the end of the statement")

    def _take(self, kind: str, what: str) -> Token:
        if self.next.kind != kind:
            raise self.error(f"expected {what}, found {self.found()}")
        self.place += 1
        return self.tokens[self.place - 1]
