"""What can go wrong with accelerators, as sentences for people.

AcceleratorError
├── EditsError      these devices cannot be used together by one container
├── MaskError       an affinity mask or a device hierarchy that says nothing usable
├── ScanError       the scan as a whole could not be made (also an OSError)
└── ShapeError      a text that is no shape of TPU chips (accelet.accelerators.tpu.shape)
"""


class AcceleratorError(Exception):
    """Base of all errors of this package; the text is a sentence for people."""


class EditsError(AcceleratorError):
    """These devices cannot be used together by one container. The text is a sentence for the pod's status."""


class MaskError(AcceleratorError, ValueError):
    """An affinity mask, or the hierarchy it is written in, that cannot be understood."""


class ScanError(AcceleratorError, OSError):
    """The scan as a whole could not be made; whoever asked keeps the last one."""
