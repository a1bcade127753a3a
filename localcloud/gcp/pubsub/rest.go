package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strings"
	"time"

	pb "cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
)

// Headers of a pull: the service may not forward what was delivered too often; how long it waits, on the real clock.
const (
	KeepDeadLetters = "X-Keep-Dead-Letters"
	PullWait        = "X-Pull-Wait"
)

// Rest is the API of https://pubsub.googleapis.com/$discovery/rest?version=v1, and below /_control what tests turn.
type Rest struct{ front *Front }

var paths = regexp.MustCompile(`^/v1/(projects/[^/]+)(?:/(topics|subscriptions)(?:/([^/:]+)(/subscriptions)?(?::(\w+))?)?)?$`)

func (r *Rest) ServeHTTP(writer http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(writer, request.Body, 2*maxPublish))
	var answer any
	if err == nil {
		answer, err = r.answer(request, body)
	}
	if err != nil {
		refuse(writer, err)
		return
	}
	var text []byte
	if message, ok := answer.(proto.Message); ok {
		text, err = protojson.Marshal(message)
	} else {
		text, err = json.Marshal(answer)
	}
	if err != nil {
		refuse(writer, err)
		return
	}
	writer.Header().Set("Content-Type", "application/json; charset=UTF-8")
	writer.Write(text)
}

func (r *Rest) answer(request *http.Request, body []byte) (any, error) {
	if request.URL.Path == "/_control" {
		return r.front.control(body)
	}
	found := paths.FindStringSubmatch(request.URL.Path)
	if found == nil {
		return nil, status.Errorf(codes.NotFound, "no method %s %s", request.Method, request.URL.Path)
	}
	method := found[5]
	if method == "" {
		method = request.Method
	}
	if r.front.fails(method, false) {
		return nil, status.Error(codes.Unavailable, "The service was unable to fulfill your request. Please try again.")
	}
	ctx := request.Context()
	if request.Header.Get(KeepDeadLetters) != "" {
		ctx = context.WithValue(ctx, keepDeadLetters{}, true)
	}
	if wait, err := time.ParseDuration(request.Header.Get(PullWait)); err == nil {
		ctx = context.WithValue(ctx, pullWait{}, wait)
	}
	answer, err := r.call(ctx, method, found, body)
	if err == nil && r.front.fails(method, true) {
		return nil, status.Error(codes.Unavailable, "The service was unable to fulfill your request. Please try again.")
	}
	return answer, err
}

func (r *Rest) call(ctx context.Context, method string, found []string, body []byte) (proto.Message, error) {
	project, kind, f := found[1], found[2], r.front
	name := project + "/" + kind + "/" + found[3]
	switch key := kind + " " + method; {
	case found[4] != "" && key == "topics GET":
		return f.ListTopicSubscriptions(ctx, &pb.ListTopicSubscriptionsRequest{Topic: name})
	case found[3] == "" && key == "topics GET":
		return f.ListTopics(ctx, &pb.ListTopicsRequest{Project: project})
	case found[3] == "" && key == "subscriptions GET":
		return f.ListSubscriptions(ctx, &pb.ListSubscriptionsRequest{Project: project})
	case found[3] == "" || found[4] != "":
		return nil, status.Errorf(codes.NotFound, "no method %s", key)
	case key == "topics GET":
		return f.GetTopic(ctx, &pb.GetTopicRequest{Topic: name})
	case key == "topics DELETE":
		return f.DeleteTopic(ctx, &pb.DeleteTopicRequest{Topic: name})
	case key == "topics PUT":
		return decoded(body, &pb.Topic{}, func(m *pb.Topic) { m.Name = name }, ctx, f.CreateTopic)
	case key == "topics PATCH":
		return decoded(body, &pb.UpdateTopicRequest{}, func(m *pb.UpdateTopicRequest) { topicOf(m).Name = name }, ctx, f.UpdateTopic)
	case key == "topics publish":
		return decoded(body, &pb.PublishRequest{}, func(m *pb.PublishRequest) { m.Topic = name }, ctx, f.Publish)
	case key == "subscriptions GET":
		return f.GetSubscription(ctx, &pb.GetSubscriptionRequest{Subscription: name})
	case key == "subscriptions DELETE":
		return f.DeleteSubscription(ctx, &pb.DeleteSubscriptionRequest{Subscription: name})
	case key == "subscriptions PUT":
		return decoded(body, &pb.Subscription{}, func(m *pb.Subscription) { m.Name = name }, ctx, f.CreateSubscription)
	case key == "subscriptions PATCH":
		return decoded(body, &pb.UpdateSubscriptionRequest{}, func(m *pb.UpdateSubscriptionRequest) { subscriptionOf(m).Name = name }, ctx, f.UpdateSubscription)
	case key == "subscriptions pull":
		return decoded(body, &pb.PullRequest{}, func(m *pb.PullRequest) { m.Subscription = name }, ctx, f.Pull)
	case key == "subscriptions acknowledge":
		return decoded(body, &pb.AcknowledgeRequest{}, func(m *pb.AcknowledgeRequest) { m.Subscription = name }, ctx, f.Acknowledge)
	case key == "subscriptions modifyAckDeadline":
		return decoded(body, &pb.ModifyAckDeadlineRequest{}, func(m *pb.ModifyAckDeadlineRequest) { m.Subscription = name }, ctx, f.ModifyAckDeadline)
	default:
		return nil, status.Errorf(codes.Unimplemented, "localcloud has no %s", key)
	}
}

// decoded reads a body, puts the path's name into it and calls.
func decoded[In, Out proto.Message](body []byte, message In, name func(In), ctx context.Context,
	call func(context.Context, In) (Out, error)) (proto.Message, error) {
	if len(body) > 0 {
		if err := protojson.Unmarshal(body, message); err != nil {
			return nil, status.Errorf(codes.InvalidArgument, "Invalid JSON payload received. %v", err)
		}
	}
	name(message)
	answer, err := call(ctx, message)
	if err != nil {
		return &emptypb.Empty{}, err
	}
	return answer, nil
}

func topicOf(request *pb.UpdateTopicRequest) *pb.Topic {
	if request.Topic == nil {
		request.Topic = &pb.Topic{}
	}
	return request.Topic
}

func subscriptionOf(request *pb.UpdateSubscriptionRequest) *pb.Subscription {
	if request.Subscription == nil {
		request.Subscription = &pb.Subscription{}
	}
	return request.Subscription
}

var httpStatus = map[codes.Code]int{codes.InvalidArgument: 400, codes.NotFound: 404, codes.AlreadyExists: 409,
	codes.FailedPrecondition: 400, codes.Unimplemented: 501, codes.Unavailable: 503, codes.Canceled: 499}

// refuse answers as https://cloud.google.com/apis/design/errors#http_mapping says.
func refuse(writer http.ResponseWriter, err error) {
	reason := status.Convert(err)
	number, known := httpStatus[reason.Code()]
	if !known {
		number = 500
	}
	writer.Header().Set("Content-Type", "application/json; charset=UTF-8")
	writer.WriteHeader(number)
	name := strings.ToUpper(regexp.MustCompile(`(\w)([A-Z])`).ReplaceAllString(reason.Code().String(), "${1}_$2"))
	json.NewEncoder(writer).Encode(map[string]any{
		"error": map[string]any{"code": number, "message": reason.Message(), "status": name}})
}

// control sets the mishaps in the body, if any, and returns the counters and each subscription's backlog.
func (f *Front) control(body []byte) (any, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(body) > 0 {
		if err := json.Unmarshal(body, &f.mishaps); err != nil {
			return nil, status.Errorf(codes.InvalidArgument, "%v", err)
		}
	}
	backlog := map[string]any{}
	for name, sub := range f.subs {
		oldest, now := 0.0, f.now()
		for id, held := range sub.held {
			if f.expired(sub, held) {
				delete(sub.held, id)
				f.counters.Expired++
			} else {
				oldest = max(oldest, now.Sub(held.published).Seconds())
			}
		}
		backlog[name] = map[string]any{"unacked": len(sub.held), "oldest_unacked_seconds": oldest}
	}
	return map[string]any{"subscriptions": backlog, "mishaps": f.mishaps, "counters": f.counters}, nil
}

// fails reports whether a test wants this call to fail, before or after it is done.
func (f *Front) fails(method string, after bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	left := f.mishaps.Fail
	if after {
		left = f.mishaps.FailAfter
	}
	if left[method] == 0 {
		return false
	}
	left[method]--
	return true
}
