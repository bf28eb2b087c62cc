"""What is asked: texts that come with the tool, and files of the user's own, read carefully.

shipped   the named workloads, one JSONL file each under data/, written for this project
files     ShareGPT, OpenAI chat, MT-Bench and Spec-Bench questions, plain prompts
texts     a conversation, and the fingerprint of many
"""

from __future__ import annotations

from sweep.workloads.files import read_file, read_workload
from sweep.workloads.shipped import shipped
from sweep.workloads.texts import Conversation, Turn, fingerprint

__all__ = ["Conversation", "Turn", "fingerprint", "read_file", "read_workload", "shipped"]
