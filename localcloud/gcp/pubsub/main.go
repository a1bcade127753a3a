// Program pubsub is a Pub/Sub on loopback, over REST and gRPC: Google's own fake behind a front with declared
// retention, dead letters, limits and failures.
//
// It prints one line, {"rest": port, "grpc": port}, and ends when its standard input closes, never later than its parent.
package main

import (
	"encoding/json"
	"flag"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"time"

	pb "cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc"
)

func main() {
	factor := flag.Float64("factor", 1, "how many times as fast as the real clock ours runs")
	origin := flag.Float64("origin", 0, "epoch seconds at which both clocks are the same; 0 is now")
	wait := flag.Duration("pull-wait", 10*time.Second, "how long a pull waits for a message, on our clock")
	flag.Parse()

	front := NewFront(clock(*factor, *origin), time.Duration(float64(*wait) / *factor))
	service := grpc.NewServer()
	pb.RegisterPublisherServer(service, front)
	pb.RegisterSubscriberServer(service, front)
	grpcSocket, restSocket := listen(), listen()
	go func() { log.Fatal(service.Serve(grpcSocket)) }()
	go func() { log.Fatal(http.Serve(restSocket, &Rest{front: front})) }()
	json.NewEncoder(os.Stdout).Encode(map[string]int{"rest": port(restSocket), "grpc": port(grpcSocket)})
	io.Copy(io.Discard, os.Stdin)
}

// clock is the clock of localcloud/gcp/clock.py.
func clock(factor, origin float64) func() time.Time {
	start := time.Now()
	if origin != 0 {
		start = time.UnixMicro(int64(origin * 1e6))
	}
	return func() time.Time { return start.Add(time.Duration(float64(time.Since(start)) * factor)) }
}

func listen() net.Listener {
	socket, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	return socket
}

func port(socket net.Listener) int { return socket.Addr().(*net.TCPAddr).Port }
