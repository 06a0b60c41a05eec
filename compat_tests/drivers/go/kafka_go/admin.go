package main

import (
	"cmp"
	"slices"

	"github.com/segmentio/kafka-go"

	"kavka.test/drivers/driver"
)

type admin struct {
	cluster
	client *kafka.Client
}

func (a *admin) offer(requests map[string]driver.Handler) {
	requests["create_topic"] = driver.Do(a.createTopic)
	requests["delete_topic"] = driver.Do(a.deleteTopic)
	requests["create_partitions"] = driver.Do(a.createPartitions)
	requests["list_topics"] = driver.Ask(a.listTopics)
	requests["describe_topic"] = driver.Take(a.describeTopic)
	requests["describe_configs"] = driver.Take(a.describeConfigs)
	requests["alter_configs"] = driver.Do(a.alterConfigs)
	requests["list_groups"] = driver.Ask(a.listGroups)
	requests["describe_group"] = driver.Take(a.describeGroup)
	requests["delete_group"] = driver.Do(a.deleteGroup)
	requests["group_offsets"] = driver.Take(a.groupOffsets)
	requests["describe_cluster"] = driver.Ask(a.describeCluster)
}

func (a *admin) createTopic(given driver.NewTopic) error {
	partitions, replicas := given.Counts()
	config := kafka.TopicConfig{
		Topic: given.Topic, NumPartitions: int(partitions), ReplicationFactor: int(replicas),
	}
	for name, value := range given.Configs {
		config.ConfigEntries = append(config.ConfigEntries, kafka.ConfigEntry{
			ConfigName: name, ConfigValue: value,
		})
	}
	response, err := a.client.CreateTopics(background, &kafka.CreateTopicsRequest{
		Topics: []kafka.TopicConfig{config},
	})
	if err != nil {
		return err
	}
	return response.Errors[given.Topic]
}

func (a *admin) deleteTopic(given driver.Topic) error {
	response, err := a.client.DeleteTopics(background, &kafka.DeleteTopicsRequest{
		Topics: []string{given.Topic},
	})
	if err != nil {
		return err
	}
	return response.Errors[given.Topic]
}

func (a *admin) createPartitions(given driver.Growth) error {
	response, err := a.client.CreatePartitions(background, &kafka.CreatePartitionsRequest{
		Topics: []kafka.TopicPartitionsConfig{{Name: given.Topic, Count: int32(given.Total)}},
	})
	if err != nil {
		return err
	}
	return response.Errors[given.Topic]
}

// metadata is read by connections of its own: what a client has read it may tell for six seconds more,
// which is too long after a change.
func (a *admin) metadata(topics ...string) (*kafka.MetadataResponse, error) {
	transport := a.newTransport()
	defer transport.CloseIdleConnections()
	client := &kafka.Client{Addr: a.client.Addr, Transport: transport}
	return client.Metadata(background, &kafka.MetadataRequest{Topics: topics})
}

func (a *admin) listTopics() (driver.Topics, error) {
	metadata, err := a.metadata()
	if err != nil {
		return driver.Topics{}, err
	}
	topics := []string{}
	for _, topic := range metadata.Topics {
		if !topic.Internal {
			topics = append(topics, topic.Name)
		}
	}
	return driver.Topics{Topics: topics}, nil
}

func (a *admin) describeTopic(given driver.Topic) (driver.TopicDescription, error) {
	metadata, err := a.metadata(given.Topic)
	if err != nil {
		return driver.TopicDescription{}, err
	}
	topic, err := topicOf(metadata, given.Topic)
	if err != nil {
		return driver.TopicDescription{}, err
	}
	description := driver.TopicDescription{Partitions: []driver.Partition{}}
	for _, one := range topic.Partitions {
		description.Partitions = append(description.Partitions, driver.Partition{
			Partition: int32(one.ID),
			Leader:    int32(one.Leader.ID),
			Replicas:  ids(one.Replicas),
			ISR:       ids(one.Isr),
		})
	}
	slices.SortFunc(description.Partitions, func(a, b driver.Partition) int {
		return cmp.Compare(a.Partition, b.Partition)
	})
	return description, nil
}

func ids(brokers []kafka.Broker) []int32 {
	all := []int32{}
	for _, broker := range brokers {
		all = append(all, int32(broker.ID))
	}
	return all
}

func (a *admin) describeConfigs(given driver.Topic) (driver.Configs, error) {
	response, err := a.client.DescribeConfigs(background, &kafka.DescribeConfigsRequest{
		Resources: []kafka.DescribeConfigRequestResource{{
			ResourceType: kafka.ResourceTypeTopic, ResourceName: given.Topic,
		}},
	})
	if err != nil {
		return driver.Configs{}, err
	}
	configs := map[string]*string{}
	for _, resource := range response.Resources {
		if resource.Error != nil {
			return driver.Configs{}, resource.Error
		}
		for _, entry := range resource.ConfigEntries {
			configs[entry.ConfigName] = &entry.ConfigValue
		}
	}
	return driver.Configs{Configs: configs}, nil
}

func (a *admin) alterConfigs(given driver.Alteration) error {
	configs := []kafka.IncrementalAlterConfigsRequestConfig{}
	for name, value := range given.Set {
		configs = append(configs, kafka.IncrementalAlterConfigsRequestConfig{
			Name: name, Value: value, ConfigOperation: kafka.ConfigOperationSet,
		})
	}
	for _, name := range given.Remove {
		configs = append(configs, kafka.IncrementalAlterConfigsRequestConfig{
			Name: name, ConfigOperation: kafka.ConfigOperationDelete,
		})
	}
	request := &kafka.IncrementalAlterConfigsRequest{
		Resources: []kafka.IncrementalAlterConfigsRequestResource{{
			ResourceType: kafka.ResourceTypeTopic, ResourceName: given.Topic, Configs: configs,
		}},
	}
	response, err := a.client.IncrementalAlterConfigs(background, request)
	if err != nil {
		return err
	}
	for _, resource := range response.Resources {
		if resource.Error != nil {
			return resource.Error
		}
	}
	return nil
}

func (a *admin) listGroups() (driver.Groups, error) {
	response, err := a.client.ListGroups(background, &kafka.ListGroupsRequest{})
	if err != nil {
		return driver.Groups{}, err
	}
	if response.Error != nil {
		return driver.Groups{}, response.Error
	}
	groups := []string{}
	for _, group := range response.Groups {
		groups = append(groups, group.GroupID)
	}
	return driver.Groups{Groups: groups}, nil
}

func (a *admin) describeGroup(given driver.Group) (driver.GroupDescription, error) {
	description := driver.GroupDescription{Members: []driver.Member{}}
	response, err := a.client.DescribeGroups(background, &kafka.DescribeGroupsRequest{
		GroupIDs: []string{given.Group},
	})
	if err != nil {
		return description, err
	}
	for _, group := range response.Groups {
		if group.Error != nil {
			return description, group.Error
		}
		description.State = group.GroupState
		for _, one := range group.Members {
			places := []driver.Place{}
			for _, topic := range one.MemberAssignments.Topics {
				for _, number := range topic.Partitions {
					places = append(places, driver.Place{Topic: topic.Topic, Partition: int32(number)})
				}
			}
			description.Members = append(description.Members, driver.Member{
				ClientID: one.ClientID, Partitions: driver.Sorted(places).Partitions,
			})
		}
	}
	return description, nil
}

func (a *admin) deleteGroup(given driver.Group) error {
	response, err := a.client.DeleteGroups(background, &kafka.DeleteGroupsRequest{
		GroupIDs: []string{given.Group},
	})
	if err != nil {
		return err
	}
	return response.Errors[given.Group]
}

func (a *admin) groupOffsets(given driver.Group) (driver.Offsets, error) {
	response, err := a.client.OffsetFetch(background, &kafka.OffsetFetchRequest{GroupID: given.Group})
	if err != nil {
		return driver.Offsets{}, err
	}
	if response.Error != nil {
		return driver.Offsets{}, response.Error
	}
	offsets := []driver.Offset{}
	for topic, partitions := range response.Topics {
		for _, one := range partitions {
			if one.Error != nil {
				return driver.Offsets{}, one.Error
			}
			place := driver.Place{Topic: topic, Partition: int32(one.Partition)}
			offsets = append(offsets, driver.Offset{
				Place: place, Offset: one.CommittedOffset, Metadata: one.Metadata,
			})
		}
	}
	return driver.Offsets{Offsets: offsets}, nil
}

func (a *admin) describeCluster() (driver.Cluster, error) {
	metadata, err := a.metadata()
	if err != nil {
		return driver.Cluster{}, err
	}
	return driver.Cluster{
		ClusterID:  metadata.ClusterID,
		Controller: int32(metadata.Controller.ID),
		Brokers:    ids(metadata.Brokers),
	}, nil
}
