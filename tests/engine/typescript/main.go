// Command typescript writes the TypeScript SDK of a package, as Pulumi's language host for Node.js does. It reads the
// package's schema from stdin and takes the SDK's folder as its argument.
package main

import (
	"encoding/json"
	"log"
	"os"
	"path/filepath"

	"github.com/pulumi/pulumi/pkg/v3/codegen/nodejs"
	"github.com/pulumi/pulumi/pkg/v3/codegen/schema"
)

func main() {
	log.SetFlags(0)
	var spec schema.PackageSpec
	if err := json.NewDecoder(os.Stdin).Decode(&spec); err != nil {
		log.Fatal(err)
	}
	pkg, err := schema.ImportSpec(spec, nil, schema.NewCachedLoader(nil), schema.ValidationOptions{})
	if err != nil {
		log.Fatal(err)
	}
	files, err := nodejs.GeneratePackage("tidemill", pkg, nil, nil, true, nil)
	if err != nil {
		log.Fatal(err)
	}
	for name, content := range files {
		path := filepath.Join(os.Args[1], name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			log.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			log.Fatal(err)
		}
	}
}
