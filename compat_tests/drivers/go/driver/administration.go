package driver

type Topic struct {
	Topic string `json:"topic"`
}

type Group struct {
	Group string `json:"group"`
}

type NewTopic struct {
	Topic      string            `json:"topic"`
	Partitions *int32            `json:"partitions"`
	Replicas   *int16            `json:"replicas"`
	Configs    map[string]string `json:"configs"`
}

// Counts are the partitions and replicas, -1 where the broker's default is wanted.
func (t NewTopic) Counts() (partitions int32, replicas int16) {
	partitions, replicas = -1, -1
	if t.Partitions != nil {
		partitions = *t.Partitions
	}
	if t.Replicas != nil {
		replicas = *t.Replicas
	}
	return partitions, replicas
}

type Growth struct {
	Topic string `json:"topic"`
	Total int    `json:"total"`
}

type Alteration struct {
	Topic  string            `json:"topic"`
	Set    map[string]string `json:"set"`
	Remove []string          `json:"remove"`
}

type Deletion struct {
	Place
	Before int64 `json:"before"`
}

type LowEnd struct {
	Earliest int64 `json:"earliest"`
}

type Numbers struct {
	Partitions []int32 `json:"partitions"`
}

type Topics struct {
	Topics []string `json:"topics"`
}

type Groups struct {
	Groups []string `json:"groups"`
}

type Configs struct {
	Configs map[string]*string `json:"configs"`
}

type Partition struct {
	Partition int32   `json:"partition"`
	Leader    int32   `json:"leader"`
	Replicas  []int32 `json:"replicas"`
	ISR       []int32 `json:"isr"`
}

type TopicDescription struct {
	Partitions []Partition `json:"partitions"`
}

type Member struct {
	ClientID   string  `json:"client_id"`
	Partitions []Place `json:"partitions"`
}

type GroupDescription struct {
	State   string   `json:"state"`
	Members []Member `json:"members"`
}

type Offsets struct {
	Offsets []Offset `json:"offsets"`
}

type Cluster struct {
	ClusterID  string  `json:"cluster_id"`
	Controller int32   `json:"controller"`
	Brokers    []int32 `json:"brokers"`
}
