package main

import (
	"context"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	pb "cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"cloud.google.com/go/pubsub/v2/pstest"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

const (
	maxMessages = 1000              // in a publish: https://cloud.google.com/pubsub/quotas#resource_limits
	maxPublish  = 10 << 20          // bytes per publish: the same page
	maxPause    = 600 * time.Second // discovery: RetryPolicy
	again       = ":again"          // marks the ack id of a duplicate delivery
)

var given = regexp.MustCompile(`^m\d+:\d+(` + again + `)?$`) // every ack id that was given out

// Front adds to Google's fake what that lacks. pstest drops messages that were not delivered for ten minutes, accepts at
// most seven days of retention, does not count unacknowledged messages, and leaves dead letters where they are. The
// front corrects these four. Leases, deadlines and redelivery are pstest's.
type Front struct {
	*pstest.GServer
	now  func() time.Time
	wait time.Duration // of a pull without a message, on the real clock

	mu       sync.Mutex // taken before pstest's own
	topics   map[string]bool
	subs     map[string]*subscription
	arrived  chan struct{} // closed when something can be pulled again
	mishaps  Mishaps
	counters Counters
}

type subscription struct {
	declared *pb.Subscription
	held     map[string]*message // unacknowledged, by message id
	again    []*pb.ReceivedMessage
}

type message struct {
	published time.Time
	ackID     string // the last one given; empty once it was returned
	attempts  int32
	pausedTo  time.Time // by the subscription's retry policy
}

// Mishaps are failures on request.
type Mishaps struct {
	Duplicates float64        `json:"duplicates"` // share of deliveries that are repeated
	Fail       map[string]int `json:"fail"`       // by method: how many REST calls are refused with 503
	FailAfter  map[string]int `json:"fail_after"` // by method: how many are done and then answered with 503
}

// Counters count since the start.
type Counters struct {
	Published    int `json:"published"`
	Delivered    int `json:"delivered"`
	Duplicated   int `json:"duplicated"`
	Acknowledged int `json:"acknowledged"`
	Returned     int `json:"returned"`
	DeadLettered int `json:"dead_lettered"`
	Expired      int `json:"expired"`
	Pulls        int `json:"pulls"` // begun, whether they found something or not
}

// NewFront starts a fake on this clock.
func NewFront(now func() time.Time, wait time.Duration) *Front {
	// pstest reads its clock once per message of a publish, under its lock. The clock then returns a time so late that
	// pstest never drops the message; each subscription decides here when the message expires.
	stamps, forever := 0, time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
	stamping := pstest.ServerReactorOption{FuncName: "Publish", Reactor: reactor(func(request any) {
		stamps = len(request.(*pb.PublishRequest).Messages)
	})}
	server := pstest.NewServer(stamping)
	server.SetTimeNowFunc(func() time.Time {
		if stamps > 0 {
			stamps--
			return forever
		}
		return now()
	})
	return &Front{GServer: &server.GServer, now: now, wait: wait, topics: map[string]bool{},
		subs: map[string]*subscription{}, arrived: make(chan struct{})}
}

type reactor func(request any)

func (r reactor) React(request any) (bool, any, error) { r(request); return false, nil, nil }

// Publish refuses what exceeds the service's limits.
func (f *Front) Publish(ctx context.Context, request *pb.PublishRequest) (*pb.PublishResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.publish(ctx, request)
}

func (f *Front) publish(ctx context.Context, request *pb.PublishRequest) (*pb.PublishResponse, error) {
	switch {
	case !f.topics[request.Topic]:
		return nil, status.Errorf(codes.NotFound, "Resource not found (resource=%s).", request.Topic[strings.LastIndex(request.Topic, "/")+1:])
	case len(request.Messages) == 0 || len(request.Messages) > maxMessages:
		return nil, status.Errorf(codes.InvalidArgument, "%d messages in one publish, not 1 to %d", len(request.Messages), maxMessages)
	case proto.Size(request) > maxPublish:
		return nil, status.Errorf(codes.InvalidArgument, "Request payload size exceeds the limit: %d bytes.", maxPublish)
	}
	for index, message := range request.Messages {
		if len(message.Data) == 0 && len(message.Attributes) == 0 {
			return nil, status.Errorf(codes.InvalidArgument, "message %d has neither data nor attributes", index)
		}
	}
	now := f.now()
	answer, err := f.GServer.Publish(ctx, request)
	if err != nil {
		return nil, err
	}
	for _, sub := range f.subs {
		if sub.declared.Topic == request.Topic {
			for _, id := range answer.MessageIds {
				sub.held[id] = &message{published: now}
			}
		}
	}
	f.counters.Published += len(answer.MessageIds)
	f.wake()
	return answer, nil
}

func (f *Front) wake() {
	close(f.arrived)
	f.arrived = make(chan struct{})
}

type keepDeadLetters struct{} // in a context: dead letters stay where they are
type pullWait struct{}        // in a context: a time to wait other than the front's

// Pull waits for at least one message, for as long as the front was told.
func (f *Front) Pull(ctx context.Context, request *pb.PullRequest) (*pb.PullResponse, error) {
	request = clone(request)
	wait := f.wait
	if given, ok := ctx.Value(pullWait{}).(time.Duration); ok {
		wait = given
	}
	end := time.Now().Add(wait)
	if request.ReturnImmediately {
		end = time.Now()
	}
	request.ReturnImmediately = true
	f.mu.Lock()
	f.counters.Pulls++
	f.mu.Unlock()
	for {
		messages, arrived, err := f.pull(ctx, request)
		if err != nil || len(messages) > 0 || !time.Now().Before(end) {
			return &pb.PullResponse{ReceivedMessages: messages}, err
		}
		select {
		case <-ctx.Done():
			return nil, status.FromContextError(ctx.Err()).Err()
		case <-arrived:
		case <-time.After(min(time.Until(end), 100*time.Millisecond)): // a deadline may have passed
		}
	}
}

func (f *Front) pull(ctx context.Context, request *pb.PullRequest) ([]*pb.ReceivedMessage, chan struct{}, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	sub, err := f.find(request.Subscription)
	if err != nil {
		return nil, nil, err
	}
	if request.MaxMessages <= 0 {
		return nil, nil, status.Error(codes.InvalidArgument, "maxMessages must be above 0")
	}
	given := min(int(request.MaxMessages), len(sub.again))
	messages := append([]*pb.ReceivedMessage{}, sub.again[:given]...)
	sub.again = sub.again[given:]
	for int(request.MaxMessages) > len(messages) {
		request := clone(request)
		request.MaxMessages -= int32(len(messages))
		answer, err := f.GServer.Pull(ctx, request)
		if err != nil {
			return nil, nil, err
		}
		if len(answer.ReceivedMessages) == 0 {
			break
		}
		for _, received := range answer.ReceivedMessages {
			if copied := f.deliver(ctx, sub, received); copied != nil {
				messages = append(messages, copied)
			}
		}
	}
	return messages, f.arrived, nil
}

// deliver answers a message as the service would, or nil when it has expired, became a dead letter or is gone.
func (f *Front) deliver(ctx context.Context, sub *subscription, received *pb.ReceivedMessage) *pb.ReceivedMessage {
	id := received.Message.MessageId
	held, policy := sub.held[id], sub.declared.DeadLetterPolicy
	if held == nil || f.expired(sub, held) {
		f.drop(ctx, sub, received)
		return nil
	}
	if held.attempts > 0 && held.ackID != "" { // pstest offers it again: its deadline has passed
		f.pause(sub, held)
	}
	if left := held.pausedTo.Sub(f.now()); left > 0 {
		f.GServer.ModifyAckDeadline(ctx, &pb.ModifyAckDeadlineRequest{Subscription: sub.declared.Name,
			AckIds: []string{received.AckId}, AckDeadlineSeconds: int32(min(left, maxPause)/time.Second) + 1})
		return nil
	}
	copied := clone(received)
	copied.Message.PublishTime = timestamppb.New(held.published)
	if policy != nil && held.attempts >= policy.MaxDeliveryAttempts && ctx.Value(keepDeadLetters{}) == nil {
		if f.deadLetter(ctx, sub, held, copied.Message) == nil {
			f.drop(ctx, sub, received)
			return nil
		}
	}
	held.attempts++
	held.ackID = received.AckId
	copied.DeliveryAttempt = 0
	if policy != nil {
		copied.DeliveryAttempt = held.attempts
	}
	f.counters.Delivered++
	if rand.Float64() < f.mishaps.Duplicates {
		twin := clone(copied)
		twin.AckId += again
		sub.again = append(sub.again, twin)
		f.counters.Duplicated++
	}
	return copied
}

// pause ends a lease and holds the message back for as long as the retry policy, if any, says.
func (f *Front) pause(sub *subscription, held *message) {
	held.ackID = ""
	policy := sub.declared.RetryPolicy
	if policy == nil {
		return
	}
	least, most := 10*time.Second, maxPause
	if policy.MinimumBackoff != nil {
		least = policy.MinimumBackoff.AsDuration()
	}
	if policy.MaximumBackoff != nil {
		most = policy.MaximumBackoff.AsDuration()
	}
	pause := least << min(held.attempts-1, 10)
	held.pausedTo = f.now().Add(min(pause, most))
}

func (f *Front) expired(sub *subscription, held *message) bool {
	return f.now().Sub(held.published) > sub.declared.MessageRetentionDuration.AsDuration()
}

func (f *Front) drop(ctx context.Context, sub *subscription, received *pb.ReceivedMessage) {
	if sub.held[received.Message.MessageId] != nil {
		delete(sub.held, received.Message.MessageId)
		f.counters.Expired++
	}
	f.GServer.Acknowledge(ctx, &pb.AcknowledgeRequest{Subscription: sub.declared.Name, AckIds: []string{received.AckId}})
}

// deadLetter forwards with the attributes of https://cloud.google.com/pubsub/docs/dead-letter-topics#track-delivery-attempts
func (f *Front) deadLetter(ctx context.Context, sub *subscription, held *message, original *pb.PubsubMessage) error {
	forwarded := &pb.PubsubMessage{Data: original.Data, OrderingKey: original.OrderingKey, Attributes: map[string]string{}}
	for key, value := range original.Attributes {
		forwarded.Attributes[key] = value
	}
	name := strings.Split(sub.declared.Name, "/")
	forwarded.Attributes["CloudPubSubDeadLetterSourceDeliveryCount"] = strconv.Itoa(int(held.attempts))
	forwarded.Attributes["CloudPubSubDeadLetterSourceSubscription"] = name[len(name)-1]
	forwarded.Attributes["CloudPubSubDeadLetterSourceSubscriptionProject"] = name[1]
	forwarded.Attributes["CloudPubSubDeadLetterSourceTopicPublishTime"] = held.published.UTC().Format(time.RFC3339Nano)
	topic := sub.declared.DeadLetterPolicy.DeadLetterTopic
	_, err := f.publish(ctx, &pb.PublishRequest{Topic: topic, Messages: []*pb.PubsubMessage{forwarded}})
	if err == nil {
		delete(sub.held, original.MessageId)
		f.counters.DeadLettered++
	}
	return err
}

// Acknowledge ends a delivery; an id that is not the last one given is ignored, as the service does.
func (f *Front) Acknowledge(ctx context.Context, request *pb.AcknowledgeRequest) (*emptypb.Empty, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	sub, err := f.find(request.Subscription)
	if err != nil {
		return nil, err
	}
	if err := known(request.AckIds); err != nil {
		return nil, err
	}
	ids := f.acknowledged(sub, request.AckIds)
	return f.GServer.Acknowledge(ctx, &pb.AcknowledgeRequest{Subscription: request.Subscription, AckIds: ids})
}

func (f *Front) acknowledged(sub *subscription, ackIDs []string) []string {
	ids := originals(ackIDs)
	for _, id := range ids {
		if key, held := sub.leased(id); held != nil {
			delete(sub.held, key)
			f.counters.Acknowledged++
		}
	}
	return ids
}

// known refuses a whole request for one ack id that was never given out, as Google's own emulator does.
func known(ids []string) error {
	for _, id := range ids {
		if !given.MatchString(id) {
			return status.Errorf(codes.InvalidArgument, "You have passed an invalid ack ID to the service (ack_id=%s).", id)
		}
	}
	return nil
}

func originals(ackIDs []string) []string {
	ids := make([]string, len(ackIDs))
	for index, id := range ackIDs {
		ids[index] = strings.TrimSuffix(id, again)
	}
	return ids
}

func (s *subscription) leased(ackID string) (string, *message) {
	key, _, _ := strings.Cut(ackID, ":")
	if held := s.held[key]; held != nil && held.ackID == ackID {
		return key, held
	}
	return "", nil
}

// ModifyAckDeadline lengthens a lease, or returns the message at 0.
func (f *Front) ModifyAckDeadline(ctx context.Context, request *pb.ModifyAckDeadlineRequest) (*emptypb.Empty, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	sub, err := f.find(request.Subscription)
	if err != nil {
		return nil, err
	}
	if request.AckDeadlineSeconds < 0 || request.AckDeadlineSeconds > 600 {
		return nil, status.Errorf(codes.InvalidArgument, "ackDeadlineSeconds %d is not in 0..600", request.AckDeadlineSeconds)
	}
	if err := known(request.AckIds); err != nil {
		return nil, err
	}
	ids := originals(request.AckIds)
	if request.AckDeadlineSeconds == 0 {
		f.returned(sub, ids)
	}
	return f.GServer.ModifyAckDeadline(ctx, &pb.ModifyAckDeadlineRequest{
		Subscription: request.Subscription, AckIds: ids, AckDeadlineSeconds: request.AckDeadlineSeconds})
}

func (f *Front) returned(sub *subscription, ids []string) {
	for _, id := range ids {
		if _, held := sub.leased(id); held != nil {
			f.pause(sub, held)
			f.counters.Returned++
		}
	}
	f.wake()
}
