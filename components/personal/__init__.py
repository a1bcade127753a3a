"""A pipeline of one person in their own account, by Pulumi's Automation API: what `tidemill up` and `down` drive.

The stack's file, its resources, its policies and its backend are those of a platform team's stacks, so that it can
become one of them.
"""

from .engine import StateHome
from .home import HomeStack
from .stack import PersonalStack
from .stack_file import StackFile, StackOptions

__all__ = ["HomeStack", "PersonalStack", "StackFile", "StackOptions", "StateHome"]
