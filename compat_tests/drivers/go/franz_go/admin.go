package main

import (
	"errors"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"kavka.test/drivers/driver"
)

// admin makes its client when it is first needed.
type admin struct {
	connection []kgo.Opt
	made       *kadm.Client
}

func (a *admin) offer(requests map[string]driver.Handler) {
	requests["create_topic"] = driver.Do(a.createTopic)
	requests["delete_topic"] = driver.Do(a.deleteTopic)
	requests["create_partitions"] = driver.Do(a.createPartitions)
	requests["list_topics"] = driver.Ask(a.listTopics)
	requests["describe_topic"] = driver.Take(a.describeTopic)
	requests["describe_configs"] = driver.Take(a.describeConfigs)
	requests["alter_configs"] = driver.Do(a.alterConfigs)
	requests["delete_records"] = driver.Take(a.deleteRecords)
	requests["list_groups"] = driver.Ask(a.listGroups)
	requests["describe_group"] = driver.Take(a.describeGroup)
	requests["delete_group"] = driver.Do(a.deleteGroup)
	requests["group_offsets"] = driver.Take(a.groupOffsets)
	requests["describe_cluster"] = driver.Ask(a.describeCluster)
}

func (a *admin) client() (*kadm.Client, error) {
	if a.made == nil {
		// By default kadm may answer out of metadata that is up to five seconds old: too old for what
		// was just changed.
		fresh := kgo.MetadataMinAge(10 * time.Millisecond)
		made, err := kadm.NewOptClient(append(slices.Clone(a.connection), fresh)...)
		if err != nil {
			return nil, err
		}
		a.made = made
	}
	return a.made, nil
}

func (a *admin) close() {
	if a.made != nil {
		a.made.Close()
	}
}

func (a *admin) createTopic(given driver.NewTopic) error {
	client, err := a.client()
	if err != nil {
		return err
	}
	configs := map[string]*string{}
	for name, value := range given.Configs {
		configs[name] = &value
	}
	partitions, replicas := given.Counts()
	_, err = client.CreateTopic(background, partitions, replicas, configs, given.Topic)
	return err
}

func (a *admin) deleteTopic(given driver.Topic) error {
	client, err := a.client()
	if err != nil {
		return err
	}
	_, err = client.DeleteTopic(background, given.Topic)
	return err
}

func (a *admin) createPartitions(given driver.Growth) error {
	client, err := a.client()
	if err != nil {
		return err
	}
	responses, err := client.UpdatePartitions(background, given.Total, given.Topic)
	if err != nil {
		return err
	}
	response, err := responses.On(given.Topic, nil)
	return errors.Join(err, response.Err)
}

func (a *admin) listTopics() (driver.Topics, error) {
	client, err := a.client()
	if err != nil {
		return driver.Topics{}, err
	}
	topics, err := client.ListTopics(background)
	if err != nil {
		return driver.Topics{}, err
	}
	return driver.Topics{Topics: topics.Names()}, nil
}

func (a *admin) describeTopic(given driver.Topic) (driver.TopicDescription, error) {
	client, err := a.client()
	if err != nil {
		return driver.TopicDescription{}, err
	}
	topics, err := client.ListTopics(background, given.Topic)
	if err != nil {
		return driver.TopicDescription{}, err
	}
	topic := topics[given.Topic]
	if topic.Err != nil {
		return driver.TopicDescription{}, topic.Err
	}
	description := driver.TopicDescription{Partitions: []driver.Partition{}}
	for _, one := range topic.Partitions.Sorted() {
		description.Partitions = append(description.Partitions, driver.Partition{
			Partition: one.Partition, Leader: one.Leader, Replicas: one.Replicas, ISR: one.ISR,
		})
	}
	return description, nil
}

func (a *admin) describeConfigs(given driver.Topic) (driver.Configs, error) {
	client, err := a.client()
	if err != nil {
		return driver.Configs{}, err
	}
	resources, err := client.DescribeTopicConfigs(background, given.Topic)
	if err != nil {
		return driver.Configs{}, err
	}
	resource, err := resources.On(given.Topic, nil)
	if err := errors.Join(err, resource.Err); err != nil {
		return driver.Configs{}, err
	}
	configs := map[string]*string{}
	for _, config := range resource.Configs {
		configs[config.Key] = config.Value
	}
	return driver.Configs{Configs: configs}, nil
}

func (a *admin) alterConfigs(given driver.Alteration) error {
	client, err := a.client()
	if err != nil {
		return err
	}
	alterations := []kadm.AlterConfig{}
	for name, value := range given.Set {
		alterations = append(alterations, kadm.AlterConfig{Op: kadm.SetConfig, Name: name, Value: &value})
	}
	for _, name := range given.Remove {
		alterations = append(alterations, kadm.AlterConfig{Op: kadm.DeleteConfig, Name: name})
	}
	responses, err := client.AlterTopicConfigs(background, alterations, given.Topic)
	if err != nil {
		return err
	}
	response, err := responses.On(given.Topic, nil)
	return errors.Join(err, response.Err)
}

func (a *admin) deleteRecords(given driver.Deletion) (driver.LowEnd, error) {
	client, err := a.client()
	if err != nil {
		return driver.LowEnd{}, err
	}
	offsets := kadm.Offsets{}
	offsets.Add(kadm.Offset{Topic: given.Topic, Partition: given.Partition, At: given.Before})
	responses, err := client.DeleteRecords(background, offsets)
	if err != nil {
		return driver.LowEnd{}, err
	}
	response, err := responses.On(given.Topic, given.Partition, nil)
	return driver.LowEnd{Earliest: response.LowWatermark}, errors.Join(err, response.Err)
}

func (a *admin) listGroups() (driver.Groups, error) {
	client, err := a.client()
	if err != nil {
		return driver.Groups{}, err
	}
	groups, err := client.ListGroups(background)
	if err != nil {
		return driver.Groups{}, err
	}
	return driver.Groups{Groups: groups.Groups()}, nil
}

// describeGroup asks for a group of the consumer protocol first; to the broker, a classic one is none
// of these, and it may know no such protocol.
func (a *admin) describeGroup(given driver.Group) (driver.GroupDescription, error) {
	client, err := a.client()
	if err != nil {
		return driver.GroupDescription{}, err
	}
	groups, err := client.DescribeConsumerGroups(background, given.Group)
	if err != nil {
		return driver.GroupDescription{}, err
	}
	group := groups[given.Group]
	if errors.Is(group.Err, kerr.GroupIDNotFound) || errors.Is(group.Err, kerr.UnsupportedVersion) {
		return describeClassic(client, given.Group)
	}
	if group.Err != nil {
		return driver.GroupDescription{}, group.Err
	}
	members := []driver.Member{}
	for _, one := range group.Members {
		places := []driver.Place{}
		one.Assignment.Each(func(topic string, partition int32) {
			places = append(places, driver.Place{Topic: topic, Partition: partition})
		})
		members = append(members, driver.Member{
			ClientID: one.ClientID, Partitions: driver.Sorted(places).Partitions,
		})
	}
	return driver.GroupDescription{State: group.State, Members: members}, nil
}

func describeClassic(client *kadm.Client, name string) (driver.GroupDescription, error) {
	groups, err := client.DescribeGroups(background, name)
	if err != nil {
		return driver.GroupDescription{}, err
	}
	group, err := groups.On(name, nil)
	if err := errors.Join(err, group.Err); err != nil {
		return driver.GroupDescription{}, err
	}
	members := []driver.Member{}
	for _, one := range group.Members {
		places := []driver.Place{}
		if assigned, ok := one.Assigned.AsConsumer(); ok {
			for _, topic := range assigned.Topics {
				for _, partition := range topic.Partitions {
					places = append(places, driver.Place{Topic: topic.Topic, Partition: partition})
				}
			}
		}
		members = append(members, driver.Member{
			ClientID: one.ClientID, Partitions: driver.Sorted(places).Partitions,
		})
	}
	return driver.GroupDescription{State: group.State, Members: members}, nil
}

func (a *admin) deleteGroup(given driver.Group) error {
	client, err := a.client()
	if err != nil {
		return err
	}
	_, err = client.DeleteGroup(background, given.Group)
	return err
}

func (a *admin) groupOffsets(given driver.Group) (driver.Offsets, error) {
	client, err := a.client()
	if err != nil {
		return driver.Offsets{}, err
	}
	found, err := client.FetchOffsets(background, given.Group)
	if err != nil {
		return driver.Offsets{}, err
	}
	offsets := []driver.Offset{}
	for _, one := range found.Sorted() {
		if one.Err != nil {
			return driver.Offsets{}, one.Err
		}
		place := driver.Place{Topic: one.Topic, Partition: one.Partition}
		offsets = append(offsets, driver.Offset{Place: place, Offset: one.At, Metadata: one.Metadata})
	}
	return driver.Offsets{Offsets: offsets}, nil
}

func (a *admin) describeCluster() (driver.Cluster, error) {
	client, err := a.client()
	if err != nil {
		return driver.Cluster{}, err
	}
	metadata, err := client.BrokerMetadata(background)
	if err != nil {
		return driver.Cluster{}, err
	}
	return driver.Cluster{
		ClusterID:  metadata.Cluster,
		Controller: metadata.Controller,
		Brokers:    metadata.Brokers.NodeIDs(),
	}, nil
}
