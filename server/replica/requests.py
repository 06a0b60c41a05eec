"""The controller's requests, applied to this broker: LeaderAndIsr, UpdateMetadata, StopReplica.

They come in process from this broker's own controller, and over the wire from another's.
"""

from __future__ import annotations

import logging

from kavka.log.partition_log import PartitionLog
from kavka.seams import Tasks
from kavka.server.config import BrokerSettings, log_settings
from kavka.server.controller import messages
from kavka.server.metadata_cache import MetadataCache
from kavka.server.replica.manager import Replica, ReplicaManager
from kavka.server.replica.partition import AssignEpoch, Leadership, Partition
from kavka.server.topic_configs import TopicConfigs
from kavka.wire.errors import ErrorCode

logger = logging.getLogger(__name__)
