"""Figures, tables and the Explorer: the only room that draws (``pip install kcm-lite[viz]``)."""
