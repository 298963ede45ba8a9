r"""The shapes of secrets: prefixes of vendors, keys in blocks, passwords in URLs, assignments to a name.

Each shape is searched for by one rare character, such as the `_` of `ghp_` or the `J` of `eyJ`: an expression
that begins with a literal passes a text as fast as memory is read, and the characters before and behind tell
at once that most of its hits begin no secret. The time is linear, whatever the text. The expressions are
compiled when a text first has a word of theirs, which most commands never print.
"""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import pairwise

from tickets.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from re import Match, Pattern

MARK = b"[redacted:"
"""What stands in the place of a secret, followed by its kind and `]`."""

_LETTERS = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789")
_DIGITS = frozenset(b"0123456789")
_WORD = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.~+/="
_HINTS = (
    (b"sk-", 20), (b"AIza", 35), (b"GOCSPX-", 28), (b"ya29.", 1), (b"ghp_", 36), (b"gho_", 36), (b"ghu_", 36),
    (b"ghs_", 36), (b"ghr_", 36), (b"github_pat_", 40), (b"glpat-", 20), (b"gldt-", 20), (b"glrt-", 20),
    (b"glptt-", 20), (b"glsoat-", 20), (b"AKIA", 16), (b"ASIA", 16), (b"xox", 20), (b"xapp-", 20),
    (b"hooks.slack.com/services", 0), (b"k_live_", 16), (b"k_test_", 16), (b"npm_", 36), (b"pypi-AgE", 20),
    (b"hf_", 34), (b"SG.", 22), (b"eyJ", 13), (b"aws_secret_access_key", 0), (b"Bearer ", 20),
    (b"Basic ", 20), (b"PRIVATE KEY-----", 0), (b"AGE-SECRET-KEY-1", 20),
)  # fmt: skip
"""Words of which one is in every text with a secret but for the next two, and how much of a word follows."""
_NAMES = (b"KEY", b"TOKEN", b"SECRET", b"PASSWORD")
_SMALL = 1 << 17
"""Bytes of a text in which these are looked for before anything is compiled."""
_LONGEST_NAME = 100
_LONGEST_URL = 1300
_BLOCK = b"PRIVATE KEY-----"
_PLACEHOLDERS = (b"dummy", b"not-real", b"your-", b"placeholder")
_PASSWORDS = frozenset((b"password", b"pass", b"secret", b"changeme"))
_PUBLIC = (b"pk_live_", b"pk_test_")
_DOCUMENTED = frozenset((
    "2cafc0970149a84f", "f2d6ca16515033e5", "7f75367e78812551", "f15c16b99f82d820"
))  # fmt: skip
"""Digests from vendors' manuals: two keys of Stripe, the token of jwt.io, the password of scott."""


class Secret(Value):
    """One secret in a text: its kind, its place in bytes, and the digest by which it can be allowed."""

    kind: str
    start: int
    end: int
    digest: str
    """16 hex digits; empty for a known value, which cannot be allowed."""


def shapes_in(data: bytes) -> Iterator[Secret]:
    """Yield what has the shape of a secret, in no order; one may overlap another."""
    if len(data) <= _SMALL and not _has_hint(data):
        return
    for kind, start, end, own in _found_in(data):
        if not _stands_for_one(own) and (digest := _digest(data[start:end])) not in _DOCUMENTED:
            yield Secret(kind, start, end, digest)


def _digest(value: bytes) -> str:
    from hashlib import sha256  # noqa: PLC0415 - for start-up time: most texts have no secret

    return sha256(value).hexdigest()[:16]


def is_placeholder(value: bytes) -> bool:
    """Return whether a value is a word that stands for one: whole, in a part, or by its few characters."""
    lower = value.lower()
    is_word = lower in _PASSWORDS or any(word in lower for word in _PLACEHOLDERS)
    return is_word or b"EXAMPLE" in value or len(set(value)) <= 4


def ends_key(data: bytes) -> int:
    """Return where the last line of a key in a block ends; -1 where there is none."""
    found = _expressions().end.search(data)
    return found.end() if found else -1


def goes_on_as_key(data: bytes) -> bool:
    """Return whether a text reads as lines of a key in a block."""
    return _expressions().lines.fullmatch(data) is not None


def _has_hint(data: bytes) -> bool:
    """Return whether a text may hold a secret, without the expressions: to compile them takes longer."""
    for hint, follows in _HINTS:
        at = data.find(hint)
        while at >= 0:
            at += len(hint)
            rest = data[at : at + follows]
            if len(rest) == follows and not rest.strip(_WORD):
                return True
            at = data.find(hint, at)
    return _is_assigned(data) or _has_login(data)


def _is_assigned(data: bytes) -> bool:
    for name in _NAMES:
        for rest in data.split(name)[1:]:
            if rest[:10].lstrip(b"\\\"'").startswith((b"=", b": ")):
                return True
    return False


def _has_login(data: bytes) -> bool:
    if b"@" not in data:
        return False
    hosts = (rest[:_LONGEST_URL].partition(b"/")[0] for rest in data.split(b"://")[1:])
    return any(b":" in host.rpartition(b"@")[0] for host in hosts)


_Found = tuple[str, int, int, bytes]
"""A kind, the start and the end of a value, and what of it is no fixed prefix."""


def _found_in(data: bytes) -> Iterator[_Found]:
    found = _expressions()
    for expression, shapes in found.led:
        for match in expression.finditer(data):
            yield _of_shape(match, shapes[(match.lastindex or 2) // 2 - 1])
    colons = []
    for match in found.after_colon.finditer(data):
        if match[1] is None:
            colons.append(match)
        else:
            yield "url-password", *match.span(1), match[1]
    yield from _assigned(data, found.after_name.finditer(data))
    yield from _assigned(data, colons)
    yield from _blocks(data)


def _of_shape(match: "Match[bytes]", shape: "_Shape") -> _Found:
    own, end = match.end((match.lastindex or 2) - 1), match.end()
    start = match.start() + 1 - shape.width if shape.width else own
    return shape.kind, start, end, match.string[own:end]


def _assigned(data: bytes, signs: "Iterable[Match[bytes]]") -> Iterator[_Found]:
    """Yield the values behind `NAME=` or `NAME: `."""
    found, end = _expressions(), 0
    for sign in signs:
        if sign.start() < end:
            continue  # inside of a value: to read its rest for each sign would take for ever
        name = found.name.search(data, max(0, sign.start() - _LONGEST_NAME), sign.start())
        value = name and found.assigned.match(data, sign.end())
        if not name or not value:
            continue
        end, text = value.end(), value[1]
        is_mixed = text.upper() != text != text.lower() and not _DIGITS.isdisjoint(text)
        is_public = b"PUBLIC" in name[1] or b"PUBLISHABLE" in name[1] or text.startswith(_PUBLIC)
        if is_mixed and not is_public and data[end : end + 1] != b"-":
            yield "named", *value.span(1), text


def _blocks(data: bytes) -> Iterator[_Found]:
    """Yield keys from their first line to the last, else to the text's end; one only mentioned is none."""
    at, found = data.find(_BLOCK), _expressions()
    while at >= 0:
        body = next_from = at + len(_BLOCK)
        begin = found.begin.search(data, max(0, at - 60), at)
        if begin and found.material.match(data, body):
            end = found.end.search(data, body)
            next_from = end.end() if end else len(data)
            # Of one without an end what comes behind it may be anything.
            own = data[body : min(end.start(), body + 4096) if end else body + 80]
            yield "private-key", begin.start(), next_from, own if own.strip() else begin[0]
        at = data.find(_BLOCK, next_from)


def _stands_for_one(own: bytes) -> bool:
    letters = _LETTERS.intersection(own) if len(own) >= 16 else set(own)
    return (
        len(letters) <= 4
        or is_placeholder(own)
        or own.startswith(MARK)
        or _expressions().variable.search(own) is not None
        or _counts_up(own)
    )


def _counts_up(value: bytes) -> bool:
    """Return whether eight characters in a row count up, as in `12345678`."""
    run = 1
    for before, byte in pairwise(value):
        run = run + 1 if byte == before + 1 else 1
        if run == 8:
            return True
    return False


# The expressions


class _Shape(Value):
    kind: str
    width: int
    """Bytes of `before`; 0 where what is fixed is not redacted."""
    before: bytes
    """What is fixed, of one width; its last character is the one that is looked for."""
    fixed: bytes
    """The rest of what is fixed."""
    own: bytes


_QUOTE = rb"\\{0,7}[\"']?"
_ASSIGNED = _QUOTE + rb"\s{0,4}(?:=>?|:)\s{0,4}" + _QUOTE
_GITLAB = rb"[\w-]{20,}(?:\.[0-9a-z]{2}\.[0-9a-z]{9})?"
_SLACK = rb"(?=[A-Za-z-]{0,64}[0-9])[A-Za-z0-9-]{20,}+(?!_)"
_STRIPE = rb"[A-Za-z0-9]{16,}+(?![_-])"
_AWS = rb"[A-Za-z0-9/+=]{40}(?![\w/+=-])"
_SHAPES: dict[bytes, tuple[_Shape, ...]] = {
    rb"-(?<=[aikprstbXY]-)(?=[\w-]{20})": (
        _Shape("anthropic-key", 3, rb"sk-", rb"ant-(?=[\w-]{32})(?:[a-z]+[0-9]{2}-)?+", rb"[\w-]+"),
        _Shape("openai-key", 3, rb"sk-", rb"(?:proj|svcacct|admin)-", rb"[\w-]{40,}"),
        _Shape("openai-key", 3, rb"sk-", b"", rb"[A-Za-z0-9]{48}(?![\w-])"),
        _Shape("google-key", 7, rb"GOCSPX-", b"", rb"[\w-]{28}(?![\w-])"),
        *(_Shape("gitlab-token", len(one), one, b"", _GITLAB) for one in (b"glpat-", b"gldt-", b"glrt-")),
        *(_Shape("gitlab-token", len(one), one, b"", _GITLAB) for one in (b"glptt-", b"glsoat-")),
        _Shape("slack-token", 5, rb"xox[bpars]-", b"", _SLACK),
        _Shape("slack-token", 5, rb"xapp-", b"", _SLACK),
        _Shape("registry-token", 5, rb"pypi-", b"AgE", rb"[\w-]{50,}"),
        _Shape("private-key", 15, rb"AGE-SECRET-KEY-", b"1", rb"[A-Z0-9]{58}(?![\w-])"),
    ),
    rb"_(?<=[efmoprstuS]_)(?=\w{16})": (
        _Shape("github-token", 4, rb"gh[pousr]_", b"", rb"[A-Za-z0-9]{36,}+(?![_-])"),
        _Shape("github-token", 11, rb"github_pat_", b"", rb"\w{82}(?![\w-])"),
        _Shape("aws-key", 0, rb"aws_", rb"secret_access_key" + _ASSIGNED, _AWS),
        _Shape("aws-key", 0, rb"AWS_", rb"SECRET_ACCESS_KEY" + _ASSIGNED, _AWS),
        _Shape("stripe-key", 8, rb"[sr]k_live_", b"", _STRIPE),
        _Shape("stripe-key", 8, rb"[sr]k_test_", b"", _STRIPE),
        _Shape("registry-token", 4, rb"npm_", b"", rb"[A-Za-z0-9]{36}(?![\w-])"),
        _Shape("registry-token", 3, rb"hf_", b"", rb"[A-Za-z]{34}(?![\w-])"),
    ),
    rb"A(?=Iza|KIA|SIA)": (
        _Shape("google-key", 1, rb"A", b"Iza", rb"[\w-]{35}(?![\w-])"),
        _Shape("aws-key", 1, rb"A", b"[KS]IA", rb"[A-Z0-9]{16}(?![\w-])"),
    ),
    rb"\.(?<=9\.)(?=[\w.-]{20})": (_Shape("google-key", 5, rb"ya29\.", rb"(?:[a-z]\.)?", rb"[\w-]{20,}"),),
    rb"G(?=\.)": (_Shape("registry-token", 2, rb"SG", rb"\.", rb"[\w-]{22}\.[\w-]{43}(?![\w-])"),),
    rb"J(?<=yJ)": (_Shape("jwt", 3, rb"eyJ", b"", rb"[\w-]{13,}\.eyJ[\w-]{13,}\.[\w-]{16,}"),),
    rb"B(?=earer |asic )": (_Shape("authorization", 0, rb"B", rb"[a-z]+ ", rb"[\w.~+/=-]{20,}"),),
    rb"k(?=s\.slack)": (
        _Shape(
            "slack-token",
            0,
            rb"hook",
            rb"s\.slack\.com/services/(?=[A-Za-z/_-]{0,64}[0-9])",
            rb"[\w/-]{16,}",
        ),
    ),
}
"""By what is searched for: a rare character, and what quickly tells that no secret begins there."""
_ESCAPED = rb"\\u[0-9a-fA-F]{4}"
_SKIPPED = rb"(?:\s|\\+[nrt]?|[\"'>|,#]|\x1b\[[0-9;]*m)*+"
_HEADERS = rb"(?:[A-Za-z-]{1,30}: [^\r\n\\]{1,200}+" + _SKIPPED + rb")*+"


class _Expressions(Value):
    led: "tuple[tuple[Pattern[bytes], tuple[_Shape, ...]], ...]"
    after_name: "Pattern[bytes]"
    after_colon: "Pattern[bytes]"
    """Behind a name; with the password of a URL as its group."""
    name: "Pattern[bytes]"
    assigned: "Pattern[bytes]"
    begin: "Pattern[bytes]"
    end: "Pattern[bytes]"
    material: "Pattern[bytes]"
    lines: "Pattern[bytes]"
    variable: "Pattern[bytes]"


@lru_cache(maxsize=1)
def _expressions() -> _Expressions:
    """Compile the expressions, once."""
    from re import compile as made  # noqa: PLC0415 - for start-up time

    return _Expressions(
        led=tuple((made(_led(lead, shapes)), shapes) for lead, shapes in _SHAPES.items()),
        after_name=made(b"=" + _named(b"=")),
        after_colon=made(
            b":(?:" + _named(b":") + rb" |//(?:[^\s/?#@:\"'<>`\\{}\[\]]|%s){0,255}+"
            rb":((?:[^\s/\"'<>`\\{}]|%s){1,1023})@(?=[\w\[.%%$-]))" % (_ESCAPED, _ESCAPED)
        ),
        name=made(
            _alone(b"")
            + rb"([A-Z][A-Z0-9_]*+(?:(?<=KEY)|(?<=TOKEN)|(?<=SECRET)|(?<=PASSWORD)))"
            + _QUOTE
            + rb"\Z"
        ),
        assigned=made(_QUOTE + rb"((?!/)[A-Za-z0-9+/=_]{20,}+)"),
        begin=made(rb"-----BEGIN (?:[A-Z0-9]+ ){0,4}\Z"),
        end=made(rb"-----END (?:[A-Z0-9]+ ){0,4}PRIVATE KEY-----"),
        material=made(_SKIPPED + rb"(?:\Z|" + _HEADERS + rb"[A-Za-z0-9+/=]{16})"),
        lines=made(
            _SKIPPED + _HEADERS + rb"(?:[ \t\"'>|#]*+[A-Za-z0-9+/=]++(?:\\+[nr])?+[ \t\r\"',|]*+(?:\n|\Z))*+"
        ),
        variable=made(rb"\$[A-Z_][A-Z0-9_]+|\$\{|<[^<>]*>|%\(|\.\.\.|\xe2\x80\xa6|\\u2026"),
    )


def _led(lead: bytes, shapes: tuple[_Shape, ...]) -> bytes:
    """Return the expression for shapes with one character that is looked for; two groups end each."""
    each = [b"(?<=%s)%s%s()%s()" % (one.before, _alone(one.before), one.fixed, one.own) for one in shapes]
    return b"%s(?:%s)" % (lead, b"|".join(each))


def _named(sign: bytes) -> bytes:
    """Return what holds behind a sign: before it a name ends, in quotes or not, which may be escaped."""
    quotes = (b"", *(rb"%s[\"']" % (rb"\\" * number) for number in (0, 1, 3, 7)))
    names = b"|".join(b"(?<=[YNTD]%s%s)" % (quote, sign) for quote in quotes)
    return b"(?<=[YNTD\"']%s)(?:%s)" % (sign, names)


def _alone(first: bytes) -> bytes:
    """Return what holds behind the beginning of a word: before that is none, or an escape's last letter."""
    before = (rb"\\[nrtbf]", _ESCAPED, rb"%[0-9A-Fa-f]{2}", rb"[0-9\[]m")
    after = b"|".join(b"(?<=%s%s)" % (one, first) for one in before)
    return b"(?:(?<![\\w-]%s)|%s)" % (first, after)
