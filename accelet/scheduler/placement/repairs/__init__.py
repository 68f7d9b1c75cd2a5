"""What becomes of a gang whose pods are partly placed.

Pure: values in, values out.

gaps    Places for the lost pods of a gang whose other pods stay where they are.
slices  Places for the lost pods of a gang of slices, each slice in one domain, the others where they are.
"""
