"""Taking secrets out of command lines that are kept."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping

from hermes.credentials._declared import hide
from hermes.credentials.shapes import known, userinfo

__all__ = ["MARK", "found_in", "plain", "redact", "secrets_in"]

MARK = "[secret]"

_WORDS = "password passwd passphrase secret token api[_-]?key access[_-]?key private[_-]?key credential"
_NAME = rf"[\w.-]{{0,60}}(?:{'|'.join(_WORDS.split())})[\w.-]{{0,60}}"
_FAR = r"[^|;&\n]{0,200}?"
# What asks for a password, maybe with something in front of it.
_ASKS = (
    r"(?:[\w./=-]{1,60}\s+){0,4}(?:/[\w./-]{1,60}/)?(?:sudo|su|doas|docker\s+login|kinit|passwd|chpasswd)\b"
)
_VALUE = r"""(?:"[^"]*"|'[^']*'|[^\s"'&;|<>()]+)"""


@functools.cache
def _patterns() -> tuple[re.Pattern[str], ...]:
    # Most commands are not logged, and compiling these takes longer than the rest of a start's imports.
    return (
        # NAME=value, name: value, "name": "value"
        re.compile(rf"(?i)(\b{_NAME}[\"']?\s{{0,3}}[=:]\s{{0,3}}){_VALUE}"),
        # --password value, --token value
        re.compile(rf"(?i)(--?{_NAME}\s+){_VALUE}"),
        re.compile(
            rf"(?i)(\bauthorization[\"']?\s{{0,3}}[:=]\s{{0,3}}(?:bearer|basic|token|digest)?\s{{0,3}}){_VALUE}"
        ),
        re.compile(rf"(?i)(\bbearer\s+){_VALUE}"),
        # scheme://user:password@host
        userinfo(),
        # curl -u user:password, mysql -ppassword, sshpass -p password
        re.compile(r"((?:^|\s)(?:-u|--user|--proxy-user)[\s=]+[\"']?[^\s:\"']{1,100}:)[^\s\"']+"),
        re.compile(r"(\bmysql\w*\b[^|;&\n]{0,200}?\s-p)[^\s\"']+"),
        re.compile(rf"(\bsshpass\s+-p\s*){_VALUE}"),
        # docker login -p password, redis-cli -a password, zip -P password, openssl -passin pass:password
        re.compile(
            rf"(\b(?:docker|podman|nerdctl|helm|oc)\b[^|;&\n]{{0,80}}?\blogin\b{_FAR}\s-p[\s=]*){_VALUE}"
        ),
        re.compile(
            rf"(\b(?:redis-cli{_FAR}\s-a|ldap\w+{_FAR}\s-w|zip{_FAR}\s-P|htpasswd\s+-\w*b\w*\s+\S+\s+\S+)\s+){_VALUE}"
        ),
        re.compile(rf"(\bpass:){_VALUE}"),
        # what is piped into, or otherwise read by, something that asks for a password
        re.compile(rf"(\b(?:echo|printf)\s+)[^|\n]{{1,300}}?(?=\s*\|&?\s*{_ASKS})"),
        re.compile(rf"((?<![\w-]){_ASKS}[^|;&\n<]{{0,200}}<<<\s*){_VALUE}"),
        re.compile(rf"((?<![\w-]){_ASKS}[^|;&\n<]{{0,200}}<<-?\s*[\"']?\w+[\"']?[^\n]{{0,200}}\n)[^\n]+"),
        re.compile(rf"((?<![\w-]){_ASKS}[^|;&\n<]{{0,200}}<\s*<\(\s*(?:echo|printf)\s+)[^)\n]{{1,300}}"),
        re.compile(r"(\bsend\s+(?:--\s+)?)(?:\"[^\"]*\"|\{[^}]*\})"),
    )


# Without one of these in it, in lower case, none of the patterns finds anything in a text.
_WHERE = "pass secret token key credential authorization bearer :// -u user mysql login redis-cli ldap zip"
_HINTS = [*_WHERE.split(), "send", "<<", "<(", "echo", "printf"]
SECRET_NAMES = ("PASSWORD", "PASSWD", "SECRET", "TOKEN", "API_KEY", "ACCESS_KEY", "PRIVATE_KEY")


def plain(text: str) -> bool:
    """Return whether it is plain to see that nothing but a known shape could be taken out of a text."""
    folded = text.casefold()
    return not any(hint in folded for hint in _HINTS)


def secrets_in(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the values of variables whose names say that they are secret; short ones would hit too much."""
    found = {
        value
        for name, value in environ.items()
        if len(value) >= 6 and any(word in name.upper() for word in SECRET_NAMES)
    }
    return tuple(sorted(found, key=len, reverse=True))


def found_in(text: str) -> frozenset[str]:
    """Return what looks like a secret in a text, so that it can be taken out elsewhere too."""
    found = set(known().findall(text))
    for pattern in _patterns():
        for match in pattern.finditer(text):
            said = match[0][len(match[1]) :]
            found |= {said.strip("\"'"), *(one.strip("\"'") for one in said.split())}
    return frozenset(found - {""})


def redact(text: str, values: tuple[str, ...] = ()) -> str:
    """Return a text with what looks like a secret, what is declared as one, and the given values, replaced.

    It errs on the side of taking out too much; what does not look like one stays.
    """
    for value in values:
        text = text.replace(value, MARK)
    text = known().sub(MARK, hide(text))
    for pattern in _patterns():
        text = pattern.sub(lambda found: found[1] + MARK, text)
    return text
