"""A page as the tests read it."""

from __future__ import annotations

from html.parser import HTMLParser

_VOID = {"meta", "br", "img", "rect", "path", "link", "input"}


class Page(HTMLParser):
    """The elements and the visible text of a page; its tags must close in order."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("script", "style"):
            self.text.append(data)

    def find(self, tag: str, **wanted: str) -> list[dict[str, str | None]]:
        found = (attrs for name, attrs in self.tags if name == tag)
        return [a for a in found if all(a.get(k) == v for k, v in wanted.items())]

    @property
    def words(self) -> str:
        return " ".join(" ".join(self.text).split())
