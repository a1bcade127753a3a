package main

import (
	"context"
	"strings"
	"time"

	pb "cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"
)

const (
	defaultRetention = 7 * 24 * time.Hour
	minRetention     = 10 * time.Minute
	maxRetention     = 31 * 24 * time.Hour
	fakeRetention    = 7 * 24 * time.Hour // the most that pstest accepts
)

// CreateTopic makes a topic.
func (f *Front) CreateTopic(ctx context.Context, topic *pb.Topic) (*pb.Topic, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	made, err := f.GServer.CreateTopic(ctx, topic)
	if err == nil {
		f.topics[topic.Name] = true
	}
	return made, err
}

// DeleteTopic removes a topic; its subscriptions stay, with what they hold.
func (f *Front) DeleteTopic(ctx context.Context, request *pb.DeleteTopicRequest) (*emptypb.Empty, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.topics, request.Topic)
	for _, sub := range f.subs {
		if sub.declared.Topic == request.Topic {
			sub.declared.Topic = "_deleted-topic_"
		}
	}
	return f.GServer.DeleteTopic(ctx, request)
}

// CreateSubscription keeps what is declared and passes on to pstest what it accepts.
func (f *Front) CreateSubscription(ctx context.Context, declared *pb.Subscription) (*pb.Subscription, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	declared = proto.Clone(declared).(*pb.Subscription)
	if err := f.complete(declared); err != nil {
		return nil, err
	}
	if _, err := f.GServer.CreateSubscription(ctx, forFake(declared)); err != nil {
		return nil, err
	}
	declared.State = pb.Subscription_ACTIVE
	f.subs[declared.Name] = &subscription{declared: declared, held: map[string]*message{}}
	return clone(declared), nil
}

func (f *Front) complete(declared *pb.Subscription) error {
	if declared.AckDeadlineSeconds == 0 {
		declared.AckDeadlineSeconds = 10
	}
	if declared.MessageRetentionDuration == nil {
		declared.MessageRetentionDuration = durationpb.New(defaultRetention)
	}
	retention, policy := declared.MessageRetentionDuration.AsDuration(), declared.DeadLetterPolicy
	switch {
	case declared.AckDeadlineSeconds < 10 || declared.AckDeadlineSeconds > 600:
		return status.Errorf(codes.InvalidArgument, "ackDeadlineSeconds %d is not in 10..600", declared.AckDeadlineSeconds)
	case retention < minRetention || retention > maxRetention:
		return status.Errorf(codes.InvalidArgument, "messageRetentionDuration %s is not in 10m..744h", retention)
	case declared.Filter != "":
		return status.Error(codes.Unimplemented, "localcloud has no filters of subscriptions")
	case badPause(declared.RetryPolicy.GetMinimumBackoff()) || badPause(declared.RetryPolicy.GetMaximumBackoff()):
		return status.Error(codes.InvalidArgument, "a backoff of retryPolicy is not in 0s..600s")
	case policy == nil:
		return nil
	case !f.topics[policy.DeadLetterTopic]:
		return status.Errorf(codes.NotFound, "dead letter topic %q", policy.DeadLetterTopic)
	case policy.MaxDeliveryAttempts == 0:
		policy.MaxDeliveryAttempts = 5
	case policy.MaxDeliveryAttempts < 5 || policy.MaxDeliveryAttempts > 100:
		return status.Errorf(codes.InvalidArgument, "maxDeliveryAttempts %d is not in 5..100", policy.MaxDeliveryAttempts)
	}
	return nil
}

func badPause(pause *durationpb.Duration) bool {
	return pause.AsDuration() < 0 || pause.AsDuration() > maxPause
}

func forFake(declared *pb.Subscription) *pb.Subscription {
	taken := clone(declared)
	taken.DeadLetterPolicy = nil
	if taken.MessageRetentionDuration.AsDuration() > fakeRetention {
		taken.MessageRetentionDuration = durationpb.New(fakeRetention)
	}
	return taken
}

func clone[M proto.Message](value M) M { return proto.Clone(value).(M) }

// GetSubscription returns what was declared.
func (f *Front) GetSubscription(_ context.Context, request *pb.GetSubscriptionRequest) (*pb.Subscription, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	sub, err := f.find(request.Subscription)
	if err != nil {
		return nil, err
	}
	return clone(sub.declared), nil
}

func (f *Front) find(name string) (*subscription, error) {
	if sub, ok := f.subs[name]; ok {
		return sub, nil
	}
	return nil, status.Errorf(codes.NotFound, "Resource not found (resource=%s).", name[strings.LastIndex(name, "/")+1:])
}

// UpdateSubscription changes what the mask names.
func (f *Front) UpdateSubscription(ctx context.Context, request *pb.UpdateSubscriptionRequest) (*pb.Subscription, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	sub, err := f.find(request.GetSubscription().GetName())
	if err != nil {
		return nil, err
	}
	changed, given := clone(sub.declared).ProtoReflect(), request.Subscription.ProtoReflect()
	for _, path := range request.GetUpdateMask().GetPaths() {
		field := changed.Descriptor().Fields().ByTextName(path)
		switch {
		case field == nil || path == "name" || path == "topic" || path == "filter" || path == "enable_message_ordering":
			return nil, status.Errorf(codes.InvalidArgument, "field %q cannot be updated", path)
		case given.Has(field):
			changed.Set(field, given.Get(field))
		default:
			changed.Clear(field)
		}
	}
	declared := changed.Interface().(*pb.Subscription)
	if err := f.complete(declared); err != nil {
		return nil, err
	}
	sub.declared = declared
	return clone(declared), nil
}

// ListSubscriptions returns all of a project, in one page.
func (f *Front) ListSubscriptions(_ context.Context, request *pb.ListSubscriptionsRequest) (*pb.ListSubscriptionsResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	answer := &pb.ListSubscriptionsResponse{}
	for name, sub := range f.subs {
		if strings.HasPrefix(name, request.Project+"/") {
			answer.Subscriptions = append(answer.Subscriptions, clone(sub.declared))
		}
	}
	return answer, nil
}

// DeleteSubscription removes it with all that it holds.
func (f *Front) DeleteSubscription(ctx context.Context, request *pb.DeleteSubscriptionRequest) (*emptypb.Empty, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.subs, request.Subscription)
	return f.GServer.DeleteSubscription(ctx, request)
}

// Seek is not supported: pstest's loses the messages' content.
func (f *Front) Seek(context.Context, *pb.SeekRequest) (*pb.SeekResponse, error) {
	return nil, status.Error(codes.Unimplemented, "localcloud has no seek")
}
