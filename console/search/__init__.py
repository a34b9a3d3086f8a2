"""The search box: one syntax tree behind the text, the chips and the query."""
