"""Deployment of policies: files that contain a policy and are used without PyTorch or Python.

A policy's decision is traced to a graph, which is written as an ONNX file or a C99 header and compared with PyTorch.
Writing and reading ONNX needs the packages of the extra ``deploy``; :mod:`.onnx_policy` reads it.
"""

from .description import PolicyDescription
from .verification import Verification
from .writing import check_name, check_weights, write_policy

__all__ = ["PolicyDescription", "Verification", "check_name", "check_weights", "write_policy"]
