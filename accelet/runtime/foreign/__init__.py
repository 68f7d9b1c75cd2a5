"""Texts that others wrote, read so that none of them can harm the reader.

Pure: values in, values out.

nesting   JSON that is nested deeper than a parser goes: read without what nobody here looks at.
yamltext  YAML that anybody may have written, as values.
"""
