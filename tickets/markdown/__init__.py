"""Lossless Markdown: bytes in, bytes out; an edit changes its own span and nothing else."""

from tickets.markdown._damage import conflict_problem, doubtful_from, nul_problem, open_fence, unclosed
from tickets.markdown._edits import (
    insert_front,
    set_cell,
    set_cells,
    set_checkbox,
    set_field,
    set_front,
    set_item,
    set_items,
    set_lines,
    set_percent,
    set_section,
    set_text,
)
from tickets.markdown._entries import (
    add_entry,
    add_items,
    add_row,
    add_rows,
    add_section,
    append_section,
    insert,
    remove_items,
    remove_rows,
    take_items,
)
from tickets.markdown._tables import Cell, Table, TableRow, cell, table, tables
from tickets.markdown._text import one_line, plain
from tickets.markdown.document import Block, Document, Heading, Item, front_problems, front_value, parse
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
from tickets.problems import MarkdownError

__all__ = [
    "Block", "Cell", "Document", "Field", "Heading", "Item", "MarkdownError", "Part", "Table", "TableRow",
    "add_entry", "add_items", "add_row", "add_rows", "add_section", "append_section", "cell",
    "conflict_problem",
    "doubtful_from", "field", "fields", "find", "front_problems", "front_value", "header", "insert",
    "insert_front", "items", "key_of", "labelled", "nul_problem", "one_line", "open_fence", "parse", "plain",
    "remove_items", "remove_rows", "section", "sections", "set_cell", "set_cells", "set_checkbox",
    "set_field", "set_front", "set_item", "set_items", "set_lines", "set_percent", "set_section", "set_text",
    "table", "tables", "take_items", "trailer_start", "unclosed",
]  # fmt: skip
