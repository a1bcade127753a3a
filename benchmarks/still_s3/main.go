// A bucket that only reads, over a folder that does not change: GET with a range, HEAD and ListObjectsV2.
//
// A benchmark of a reader needs a store that takes less of the machine than the reader. Logins are not checked.
package main

import (
	"encoding/xml"
	"fmt"
	"io/fs"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"time"
)

const page = 1000

type object struct {
	Key          string
	LastModified string
	ETag         string
	Size         int64
}

type listing struct {
	XMLName               xml.Name `xml:"ListBucketResult"`
	IsTruncated           bool
	NextContinuationToken string `xml:",omitempty"`
	Contents              []object
	CommonPrefixes        []prefix
}

type prefix struct{ Prefix string }

type bucket struct {
	root    string
	objects []object
}

// read names everything in a folder, in the order of S3: by the bytes of the key.
func read(root string) (*bucket, error) {
	found := &bucket{root: root}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		key := filepath.ToSlash(strings.TrimPrefix(path, root+string(filepath.Separator)))
		found.objects = append(found.objects, object{key, info.ModTime().UTC().Format(time.RFC3339Nano), tag(info), info.Size()})
		return nil
	})
	sort.Slice(found.objects, func(i, j int) bool { return found.objects[i].Key < found.objects[j].Key })
	return found, err
}

func tag(info fs.FileInfo) string {
	return fmt.Sprintf(`"%x-%x"`, info.ModTime().UnixNano(), info.Size())
}

func (b *bucket) ServeHTTP(writer http.ResponseWriter, request *http.Request) {
	_, key, _ := strings.Cut(strings.TrimPrefix(request.URL.Path, "/"), "/")
	if key == "" {
		b.list(writer, request)
		return
	}
	file, err := os.Open(filepath.Join(b.root, filepath.FromSlash(key)))
	if err != nil {
		writer.WriteHeader(http.StatusNotFound)
		fmt.Fprint(writer, "<Error><Code>NoSuchKey</Code><Message>There is none.</Message></Error>")
		return
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		http.Error(writer, err.Error(), http.StatusInternalServerError)
		return
	}
	writer.Header().Set("ETag", tag(info))
	writer.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(writer, request, "", info.ModTime(), file)
}

func (b *bucket) list(writer http.ResponseWriter, request *http.Request) {
	query := request.URL.Query()
	begin, delimiter := query.Get("prefix"), query.Get("delimiter")
	after := max(query.Get("start-after"), query.Get("continuation-token"))
	most := page
	if wanted, err := strconv.Atoi(query.Get("max-keys")); err == nil {
		most = min(most, wanted)
	}
	var answer listing
	at := sort.Search(len(b.objects), func(i int) bool { return b.objects[i].Key >= begin && b.objects[i].Key > after })
	for last := after; at < len(b.objects) && strings.HasPrefix(b.objects[at].Key, begin); at++ {
		key := b.objects[at].Key
		folder, _, inside := strings.Cut(key[len(begin):], delimiter)
		folder = begin + folder + delimiter
		if delimiter != "" && inside && strings.HasPrefix(last, folder) {
			continue
		}
		if len(answer.Contents)+len(answer.CommonPrefixes) == most {
			answer.IsTruncated, answer.NextContinuationToken = true, last
			break
		}
		if last = key; delimiter != "" && inside {
			answer.CommonPrefixes = append(answer.CommonPrefixes, prefix{folder})
		} else {
			answer.Contents = append(answer.Contents, b.objects[at])
		}
	}
	writer.Header().Set("Content-Type", "application/xml")
	if err := xml.NewEncoder(writer).Encode(answer); err != nil {
		log.Print(err)
	}
}

// main serves the folder that it is given, as any bucket, and prints its port.
func main() {
	held, err := read(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	log.Fatal(http.Serve(listener, held))
}
