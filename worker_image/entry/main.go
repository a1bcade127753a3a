// The only program of the worker's image that a kernel can start without help: static, without a C library.
//
//	tidemill-worker copy FOLDER    copy the tree that contains it to FOLDER
//	tidemill-worker start          become the worker
//	tidemill-worker sender         become the sender
//	tidemill-worker start IMAGE    become the worker of an image, once the machine has its tree (components/services/batch/host.py)
//
// It leaves to the worker all that the worker can do. Neither Python nor a shell is available here.
package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	loader = "lib/loader"
	python = "py/bin/python3"
	bundle = "site/certifi/cacert.pem"
	// Prefix of the container's own value of a variable that is changed for the worker alone. The worker restores the
	// container's environment for its programs (tidemill/worker/settings.py).
	was = "TIDEMILL_WAS_"
	// Names of variables that the container had not set, separated by spaces.
	added = "TIDEMILL_ADDED"
)

// How long a container waits for its tree, and its exit code after that: the code of a worker whose store does not
// answer, after which Batch tries again (tidemill/descriptor.py, WorkerExit).
const (
	patience = 5 * time.Minute
	retry    = 71
)

var errNoTree = errors.New("the machine did not bring the worker")

// Where distributions keep the certificates that they trust.
var bundles = []string{
	"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem", "/etc/ssl/ca-bundle.pem",
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
}

func main() {
	if err := run(os.Args); err != nil {
		fmt.Fprintln(os.Stderr, "tidemill-worker:", err)
		if errors.Is(err, errNoTree) {
			os.Exit(retry)
		}
		os.Exit(1)
	}
}

func run(args []string) error {
	tree, err := home(args[0])
	if err != nil {
		return err
	}
	switch {
	case len(args) == 3 && args[1] == "copy":
		return install(tree, args[2])
	case len(args) == 2 && args[1] == "start":
		return start(tree, "worker")
	case len(args) == 2 && args[1] == "sender":
		return start(tree, "sender")
	case len(args) == 3 && args[1] == "start":
		return startOther(tree, args[2])
	}
	return errors.New("usage: tidemill-worker copy FOLDER | start [IMAGE] | sender")
}

// home is the folder of this program. A root may lack /proc, so the path in the command comes first.
func home(typed string) (string, error) {
	if filepath.IsAbs(typed) {
		return filepath.Dir(typed), nil
	}
	path, err := os.Executable()
	return filepath.Dir(path), err
}

// start becomes a program of the tree, the worker or the sender, through the tree's own loader: it loads no library of the image, and its variables do not
// reach the programs that it runs.
func start(tree, program string) error {
	path := filepath.Join(tree, loader)
	interpreter := []string{filepath.Join(tree, python), "-E", "-s", filepath.Join(tree, "site"), program}
	argv := append([]string{path, "--inhibit-cache", "--library-path", filepath.Join(tree, "lib")}, interpreter...)
	return fmt.Errorf("%s: %w", path, syscall.Exec(path, argv, environment(tree, os.Environ())))
}

// startOther becomes the worker of an image, a line that ends with its digest. Its tree is in a folder next to this
// program, named after the digest. If it is missing, the machine is asked to bring it.
func startOther(folder, image string) error {
	digest := image[strings.LastIndex(image, ":")+1:]
	if len(digest) != 64 {
		return fmt.Errorf("%s is not an image by digest", image)
	}
	entry := filepath.Join(folder, digest[:16], "tidemill-worker")
	end := time.Now().Add(patience)
	for {
		if _, err := os.Stat(entry); err == nil {
			return fmt.Errorf("%s: %w", entry, syscall.Exec(entry, []string{entry, "start"}, os.Environ()))
		}
		if err := ask(filepath.Join(folder, "fetch.sock"), image); err != nil {
			if time.Now().After(end) {
				return fmt.Errorf("%w %s: %w", errNoTree, image, err)
			}
			time.Sleep(time.Second)
		}
	}
}

// ask sends a line to a socket; every answer except "ok" is an error.
func ask(path, line string) error {
	socket, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	defer syscall.Close(socket)
	limit := syscall.Timeval{Sec: int64(patience / time.Second)}
	if err := syscall.SetsockoptTimeval(socket, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &limit); err != nil {
		return err
	}
	if err := syscall.Connect(socket, &syscall.SockaddrUnix{Name: path}); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if _, err := syscall.Write(socket, []byte(line+"\n")); err != nil {
		return err
	}
	answer := make([]byte, 600)
	read, err := syscall.Read(socket, answer)
	if err != nil {
		return err
	}
	if said := string(answer[:read]); said != "ok" {
		return errors.New(said)
	}
	return nil
}

// environment is the container's, without the variables that would change the worker, and with those that it needs.
func environment(tree string, container []string) []string {
	mine := map[string]string{"LC_ALL": "C.UTF-8"} // otherwise Python sets LC_CTYPE where it finds no UTF-8 locale
	if !trusts(container) {
		mine["SSL_CERT_FILE"] = filepath.Join(tree, bundle)
	}
	env, missing := []string{}, []string{}
	had := map[string]bool{}
	for _, each := range container {
		name, value, _ := strings.Cut(each, "=")
		_, changed := mine[name]
		if changed || strings.HasPrefix(name, "LD_") || name == "GLIBC_TUNABLES" {
			had[name] = true
			env = append(env, was+name+"="+value)
		} else {
			env = append(env, each)
		}
	}
	for name, value := range mine {
		env = append(env, name+"="+value)
		if !had[name] {
			missing = append(missing, name)
		}
	}
	slices.Sort(missing)
	return append(env, added+"="+strings.Join(missing, " "))
}

// trusts says whether the container has certificates of its own, which may include a proxy's.
func trusts(container []string) bool {
	for _, each := range container {
		if strings.HasPrefix(each, "SSL_CERT_FILE=") || strings.HasPrefix(each, "SSL_CERT_DIR=") {
			return true
		}
	}
	return slices.ContainsFunc(bundles, func(path string) bool {
		_, err := os.Stat(path)
		return err == nil
	})
}

// install copies the tree to a folder that several containers of a machine may share. The entry is renamed into place
// last: where it exists the tree is complete, and an interrupted copy is never mistaken for a tree.
func install(tree, folder string) error {
	entry := filepath.Join(folder, "tidemill-worker")
	if _, err := os.Stat(entry); err == nil {
		return nil
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	lock, err := os.OpenFile(filepath.Join(folder, ".lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	if _, err := os.Stat(entry); err == nil {
		return nil
	}
	partial := ""
	err = filepath.WalkDir(tree, func(path string, item fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		below, err := filepath.Rel(tree, path)
		if err != nil {
			return err
		}
		target := filepath.Join(folder, below)
		if item.IsDir() {
			return os.MkdirAll(target, 0o755)
		}
		if target == entry { // the last one, renamed into place
			target += ".part"
			partial = target
		}
		return copyFile(path, target)
	})
	if err != nil {
		return err
	}
	if partial == "" {
		return fmt.Errorf("%s holds no tidemill-worker", tree)
	}
	return os.Rename(partial, entry)
}

func copyFile(source, target string) error {
	in, err := os.Open(source)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := os.OpenFile(target, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, info.Mode().Perm())
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		out.Close()
		return err
	}
	return out.Close()
}
