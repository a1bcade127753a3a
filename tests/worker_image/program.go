// A test item that needs nothing of its root. It writes its environment and its input.
package main

import (
	"encoding/json"
	"os"
	"path/filepath"
)

func main() {
	input, output := os.Args[1], os.Args[2]
	data, err := os.ReadFile(input)
	if err == nil {
		err = os.WriteFile(filepath.Join(output, "copy"), data, 0o644)
	}
	seen, _ := json.Marshal(map[string]any{"environment": os.Environ(), "user": os.Getuid()})
	if err == nil {
		err = os.WriteFile(filepath.Join(output, "seen.json"), seen, 0o644)
	}
	if err != nil {
		panic(err)
	}
}
