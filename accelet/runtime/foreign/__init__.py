"""Texts that others wrote, read so that none of them can harm the reader."""
