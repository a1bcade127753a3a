package main

import (
	pb "cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
)

// StreamingPull is pstest's, with the front's bookkeeping of requests and answers.
func (f *Front) StreamingPull(server pb.Subscriber_StreamingPullServer) error {
	return f.GServer.StreamingPull(&stream{Subscriber_StreamingPullServer: server, front: f})
}

type stream struct {
	pb.Subscriber_StreamingPullServer
	front *Front
	name  string // of the subscription, from the first request
}

func (s *stream) Recv() (*pb.StreamingPullRequest, error) {
	request, err := s.Subscriber_StreamingPullServer.Recv()
	if err != nil {
		return nil, err
	}
	f := s.front
	f.mu.Lock()
	defer f.mu.Unlock()
	if request.Subscription != "" {
		s.name = request.Subscription
	}
	if sub := f.subs[s.name]; sub != nil {
		request.AckIds = f.acknowledged(sub, request.AckIds)
		request.ModifyDeadlineAckIds = originals(request.ModifyDeadlineAckIds)
		for index, id := range request.ModifyDeadlineAckIds {
			if request.ModifyDeadlineSeconds[index] == 0 {
				f.returned(sub, []string{id})
			}
		}
	}
	return request, nil
}

func (s *stream) Send(answer *pb.StreamingPullResponse) error {
	if len(answer.ReceivedMessages) == 0 {
		return s.Subscriber_StreamingPullServer.Send(answer)
	}
	answer = clone(answer)
	answer.ReceivedMessages = s.delivered(answer.ReceivedMessages)
	if len(answer.ReceivedMessages) == 0 {
		return nil
	}
	return s.Subscriber_StreamingPullServer.Send(answer)
}

func (s *stream) delivered(received []*pb.ReceivedMessage) []*pb.ReceivedMessage {
	f := s.front
	f.mu.Lock()
	defer f.mu.Unlock()
	sub := f.subs[s.name]
	if sub == nil {
		return nil
	}
	var messages []*pb.ReceivedMessage
	for _, message := range received {
		if copied := f.deliver(s.Context(), sub, message); copied != nil {
			messages = append(messages, copied)
		}
	}
	messages, sub.again = append(messages, sub.again...), nil
	return messages
}
