package main

import (
	"cmp"
	"errors"
	"maps"
	"slices"

	"github.com/IBM/sarama"

	"kavka.test/drivers/driver"
)

// admin makes its client when it is first needed.
type admin struct {
	cluster
	made sarama.ClusterAdmin
}

// with makes a handler of a function that wants the library's administration.
func with[A, R any](a *admin, carryOut func(sarama.ClusterAdmin, A) (R, error)) driver.Handler {
	return driver.Take(func(arguments A) (R, error) {
		if a.made == nil {
			made, err := sarama.NewClusterAdmin(a.servers, a.newConfig())
			if err != nil {
				var nothing R
				return nothing, err
			}
			a.made = made
		}
		return carryOut(a.made, arguments)
	})
}

func doWith[A any](a *admin, carryOut func(sarama.ClusterAdmin, A) error) driver.Handler {
	return with(a, func(admin sarama.ClusterAdmin, arguments A) (driver.Nothing, error) {
		return driver.Nothing{}, carryOut(admin, arguments)
	})
}

func (a *admin) offer(requests map[string]driver.Handler) {
	requests["create_topic"] = doWith(a, createTopic)
	requests["delete_topic"] = doWith(a, func(admin sarama.ClusterAdmin, given driver.Topic) error {
		return admin.DeleteTopic(given.Topic)
	})
	requests["create_partitions"] = doWith(a, func(admin sarama.ClusterAdmin, given driver.Growth) error {
		return admin.CreatePartitions(given.Topic, int32(given.Total), nil, false)
	})
	requests["list_topics"] = with(a, listTopics)
	requests["describe_topic"] = with(a, describeTopic)
	requests["describe_configs"] = with(a, describeConfigs)
	requests["alter_configs"] = doWith(a, alterConfigs)
	requests["delete_records"] = with(a, deleteRecords)
	requests["list_groups"] = with(a, listGroups)
	requests["describe_group"] = with(a, describeGroup)
	requests["delete_group"] = doWith(a, func(admin sarama.ClusterAdmin, given driver.Group) error {
		return admin.DeleteConsumerGroup(given.Group)
	})
	requests["group_offsets"] = with(a, groupOffsets)
	requests["describe_cluster"] = with(a, describeCluster)
}

func (a *admin) close() error {
	if a.made == nil {
		return nil
	}
	return a.made.Close()
}

func createTopic(admin sarama.ClusterAdmin, given driver.NewTopic) error {
	detail := &sarama.TopicDetail{ConfigEntries: map[string]*string{}}
	detail.NumPartitions, detail.ReplicationFactor = given.Counts()
	for name, value := range given.Configs {
		detail.ConfigEntries[name] = &value
	}
	return admin.CreateTopic(given.Topic, detail, false)
}

func listTopics(admin sarama.ClusterAdmin, _ driver.Nothing) (driver.Topics, error) {
	topics, err := admin.ListTopics()
	if err != nil {
		return driver.Topics{}, err
	}
	return driver.Topics{Topics: slices.Sorted(maps.Keys(topics))}, nil
}

func describeTopic(admin sarama.ClusterAdmin, given driver.Topic) (driver.TopicDescription, error) {
	description := driver.TopicDescription{Partitions: []driver.Partition{}}
	topics, err := admin.DescribeTopics([]string{given.Topic})
	if err != nil {
		return description, err
	}
	for _, topic := range topics {
		if topic.Err != sarama.ErrNoError {
			return description, topic.Err
		}
		for _, one := range topic.Partitions {
			description.Partitions = append(description.Partitions, driver.Partition{
				Partition: one.ID, Leader: one.Leader, Replicas: one.Replicas, ISR: one.Isr,
			})
		}
	}
	slices.SortFunc(description.Partitions, func(a, b driver.Partition) int {
		return cmp.Compare(a.Partition, b.Partition)
	})
	return description, nil
}

func describeConfigs(admin sarama.ClusterAdmin, given driver.Topic) (driver.Configs, error) {
	entries, err := admin.DescribeConfig(sarama.ConfigResource{
		Type: sarama.TopicResource, Name: given.Topic,
	})
	if err != nil {
		return driver.Configs{}, err
	}
	configs := map[string]*string{}
	for _, entry := range entries {
		configs[entry.Name] = &entry.Value
	}
	return driver.Configs{Configs: configs}, nil
}

func alterConfigs(admin sarama.ClusterAdmin, given driver.Alteration) error {
	entries := map[string]sarama.IncrementalAlterConfigsEntry{}
	for name, value := range given.Set {
		entries[name] = sarama.IncrementalAlterConfigsEntry{
			Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &value,
		}
	}
	for _, name := range given.Remove {
		entries[name] = sarama.IncrementalAlterConfigsEntry{
			Operation: sarama.IncrementalAlterConfigsOperationDelete,
		}
	}
	return admin.IncrementalAlterConfig(sarama.TopicResource, given.Topic, entries, false)
}

// deleteRecords asks for the new first offset: the library keeps the one of the response to itself.
func deleteRecords(admin sarama.ClusterAdmin, given driver.Deletion) (driver.LowEnd, error) {
	err := admin.DeleteRecords(given.Topic, map[int32]int64{given.Partition: given.Before})
	if err != nil {
		return driver.LowEnd{}, err
	}
	first, err := listed(admin, given.Place, sarama.OffsetOldest, nil)
	if err != nil {
		return driver.LowEnd{}, err
	}
	return driver.LowEnd{Earliest: first.Offset}, nil
}

func listGroups(admin sarama.ClusterAdmin, _ driver.Nothing) (driver.Groups, error) {
	groups, err := admin.ListConsumerGroups()
	if err != nil {
		return driver.Groups{}, err
	}
	return driver.Groups{Groups: slices.Sorted(maps.Keys(groups))}, nil
}

func describeGroup(admin sarama.ClusterAdmin, given driver.Group) (driver.GroupDescription, error) {
	groups, err := admin.DescribeConsumerGroups([]string{given.Group})
	if err != nil {
		return driver.GroupDescription{}, err
	}
	if len(groups) != 1 {
		return driver.GroupDescription{}, sarama.ErrIncompleteResponse
	}
	group := groups[0]
	if group.Err != sarama.ErrNoError {
		return driver.GroupDescription{}, group.Err
	}
	members := []driver.Member{}
	for _, one := range group.Members {
		assignment, err := one.GetMemberAssignment()
		if err != nil {
			return driver.GroupDescription{}, err
		}
		places := []driver.Place{}
		// There is none while the group rebalances.
		if assignment != nil {
			for topic, partitions := range assignment.Topics {
				for _, partition := range partitions {
					places = append(places, driver.Place{Topic: topic, Partition: partition})
				}
			}
		}
		members = append(members, driver.Member{
			ClientID: one.ClientId, Partitions: driver.Sorted(places).Partitions,
		})
	}
	return driver.GroupDescription{State: group.State, Members: members}, nil
}

func groupOffsets(admin sarama.ClusterAdmin, given driver.Group) (driver.Offsets, error) {
	blocks, err := committedBy(admin, given.Group, nil)
	if err != nil {
		return driver.Offsets{}, err
	}
	offsets := []driver.Offset{}
	for topic, partitions := range blocks {
		for partition, block := range partitions {
			place := driver.Place{Topic: topic, Partition: partition}
			offsets = append(offsets, driver.Offset{
				Place: place, Offset: block.Offset, Metadata: block.Metadata,
			})
		}
	}
	return driver.Offsets{Offsets: offsets}, nil
}

// describeCluster takes the cluster's id out of a broker's metadata: the administration tells only the
// rest.
func describeCluster(admin sarama.ClusterAdmin, _ driver.Nothing) (driver.Cluster, error) {
	brokers, controller, err := admin.DescribeCluster()
	if err != nil {
		return driver.Cluster{}, err
	}
	cluster := driver.Cluster{Controller: controller}
	for _, broker := range brokers {
		cluster.Brokers = append(cluster.Brokers, broker.ID())
	}
	slices.Sort(cluster.Brokers)
	asked, err := admin.Controller()
	if err != nil {
		return driver.Cluster{}, err
	}
	metadata, err := asked.GetMetadata(sarama.NewMetadataRequest(sarama.MaxVersion, nil))
	if err != nil {
		return driver.Cluster{}, err
	}
	if metadata.ClusterID == nil {
		return driver.Cluster{}, errors.New("the broker doesn't tell the cluster's id")
	}
	cluster.ClusterID = *metadata.ClusterID
	return cluster, nil
}
