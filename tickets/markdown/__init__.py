"""Lossless Markdown: bytes in, bytes out; an edit touches what it is about and nothing else."""

from tickets.markdown.damage import doubtful_from, unclosed
from tickets.markdown.document import Block, Document, Heading, Item, parse
from tickets.markdown.edits import (
    add_entry,
    append_section,
    insert,
    remove_items,
    set_cell,
    set_checkbox,
    set_field,
    set_front,
    set_item,
    set_items,
    set_percent,
    set_section,
    set_text,
)
from tickets.markdown.errors import MarkdownError
from tickets.markdown.front import front_problems, front_value
from tickets.markdown.inline import one_line, plain
from tickets.markdown.sections import (
    Field,
    Part,
    field,
    fields,
    find,
    header,
    items,
    key_of,
    labelled,
    section,
    sections,
    trailer_start,
)
from tickets.markdown.tables import Cell, Table, TableRow, cell, table, tables

__all__ = [
    "Block", "Cell", "Document", "Field", "Heading", "Item", "MarkdownError", "Part", "Table", "TableRow",
    "add_entry", "append_section", "cell", "doubtful_from", "field", "fields", "find", "front_problems",
    "front_value", "header", "insert", "items", "key_of", "labelled", "one_line", "parse", "plain",
    "remove_items", "section", "sections", "set_cell", "set_checkbox", "set_field", "set_front", "set_item",
    "set_items", "set_percent", "set_section", "set_text", "table", "tables", "trailer_start", "unclosed",
]  # fmt: skip
