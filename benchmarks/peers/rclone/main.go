// Rclone with what the benchmarks need of it: its own main program with two backends and one command.
package main

import (
	_ "github.com/rclone/rclone/backend/local"
	_ "github.com/rclone/rclone/backend/s3"
	"github.com/rclone/rclone/cmd"
	_ "github.com/rclone/rclone/cmd/copy"
)

func main() {
	cmd.Main()
}
