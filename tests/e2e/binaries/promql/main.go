// Command promql runs a script of Prometheus' own test language (promqltest) with its engine: which series there are, and
// what an expression makes of them. It reads the script from the file that is named.
package main

import (
	"os"
	"regexp"
	"testing"

	"github.com/prometheus/prometheus/promql/promqltest"
)

func main() {
	path := os.Args[1]
	os.Args = os.Args[:1]
	run := func(t *testing.T) {
		script, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		engine := promqltest.NewTestEngine(t, false, 0, promqltest.DefaultMaxSamplesPerQuery)
		promqltest.RunTest(t, string(script), engine)
	}
	testing.Main(regexp.MatchString, []testing.InternalTest{{Name: "script", F: run}}, nil, nil)
}
