package peering_test

import (
	"flag"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kopf-runtime/kopf-runtime/pkg/peering"
)

// PEER-43, PEER-45, PEER-40, PEER-44, CLI-03, EMB-06, SET-08, SET-10, SET-12, SET-13, SET-14: the flags set the
// options.
func TestFlags(t *testing.T) {
	for args, want := range map[string]peering.Options{
		"":                              {Priority: 3, Namespaces: []string{"preset"}},
		"--peering=ours":                {Priority: 3, Namespaces: []string{"preset"}, Name: "ours", Mandatory: true}, // PEER-43
		"--priority=-7":                 {Priority: -7, Namespaces: []string{"preset"}},
		"--dev":                         {Priority: 666, Namespaces: []string{"preset"}}, // PEER-45
		"--dev=false":                   {Priority: 3, Namespaces: []string{"preset"}},
		"--dev --priority=1":            {Priority: 666, Namespaces: []string{"preset"}}, // CLI-03
		"--priority=1 --dev":            {Priority: 666, Namespaces: []string{"preset"}},
		"--standalone --dev":            {Priority: 666, Namespaces: []string{"preset"}, Standalone: true},
		"--namespace=a --namespace b,c": {Priority: 3, Namespaces: []string{"a", "b", "c"}},
	} {
		got := peering.Options{Priority: 3, Namespaces: []string{"preset"}}
		fs := flag.NewFlagSet("test", flag.ContinueOnError)
		got.BindFlags(fs)
		if err := fs.Parse(strings.Fields(args)); err != nil {
			t.Errorf("parsing %s failed: %v", args, err)
		} else if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", args, diff)
		}
	}
	for _, args := range []string{"--peering=", "--priority=high", "--dev=perhaps"} {
		var o peering.Options
		fs := flag.NewFlagSet("test", flag.ContinueOnError)
		fs.SetOutput(io.Discard)
		o.BindFlags(fs)
		if err := fs.Parse([]string{args}); err == nil {
			t.Errorf("got no error for %s", args)
		}
	}
	// PEER-43: a name that the program sets does not make the object mandatory.
	if (peering.Options{Name: "ours"}).Mandatory {
		t.Error("Mandatory = true, want false")
	}
}

// The help text contains the defaults.
func TestBindFlags_Help(t *testing.T) {
	o := peering.Options{Priority: -3}
	fs := flag.NewFlagSet("test", flag.ContinueOnError)
	var help strings.Builder
	fs.SetOutput(&help)
	o.BindFlags(fs)
	fs.PrintDefaults()
	for _, part := range []string{"-priority number", "(default -3)", "set the priority to 666"} {
		if !strings.Contains(help.String(), part) {
			t.Errorf("want %q in the help text, got:\n%s", part, help.String())
		}
	}
}

// CLI-01, CLI-02, PEER-43: the environment variables of a Python operator set the options.
func TestEnvironment(t *testing.T) {
	read := func(t *testing.T, variables string) (peering.Options, error) {
		t.Helper()
		for _, name := range []string{"PEERING", "PRIORITY", "DEV", "STANDALONE", "NAMESPACES", "NAMESPACE", "CLUSTERWIDE"} {
			t.Setenv("KOPF_RUN_"+name, "")
		}
		for one := range strings.SplitSeq(variables, ";") {
			name, value, _ := strings.Cut(one, "=")
			t.Setenv("KOPF_RUN_"+name, value)
		}
		o := peering.Options{Priority: 3, Namespaces: []string{"preset"}}
		err := o.ReadEnvironment()
		return o, err
	}
	for variables, want := range map[string]peering.Options{
		"PEERING=":                         {Priority: 3, Namespaces: []string{"preset"}},
		"PEERING=ours":                     {Priority: 3, Namespaces: []string{"preset"}, Name: "ours", Mandatory: true}, // PEER-43
		"PRIORITY=-7":                      {Priority: -7, Namespaces: []string{"preset"}},
		"PRIORITY=7;DEV=yes":               {Priority: 666, Namespaces: []string{"preset"}}, // CLI-03
		"DEV=0;STANDALONE=On":              {Priority: 3, Namespaces: []string{"preset"}, Standalone: true},
		"NAMESPACES= a  b ":                {Priority: 3, Namespaces: []string{"a", "b"}},
		"NAMESPACE=c":                      {Priority: 3, Namespaces: []string{"c"}},
		"NAMESPACES=a b;NAMESPACE=c":       {Priority: 3, Namespaces: []string{"a", "b", "c"}},
		"CLUSTERWIDE=true":                 {Priority: 3},
		"CLUSTERWIDE=false;NAMESPACES=a":   {Priority: 3, Namespaces: []string{"a"}},
		"STANDALONE=false;CLUSTERWIDE=off": {Priority: 3, Namespaces: []string{"preset"}},
	} {
		t.Run(variables, func(t *testing.T) {
			got, err := read(t, variables)
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("%v (-want +got)\n%s", err, diff)
			}
		})
	}
	for variables, part := range map[string]string{
		"PRIORITY=high":                 `KOPF_RUN_PRIORITY is "high": use an integer`,
		"DEV=perhaps":                   `KOPF_RUN_DEV is "perhaps": use true or false`,
		"CLUSTERWIDE=true;NAMESPACES=a": "are mutually exclusive", // CLI-02
	} {
		t.Run(variables, func(t *testing.T) {
			if _, err := read(t, variables); err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("error = %v, want an error with %s", err, part)
			}
		})
	}
}

func TestOptions_Check(t *testing.T) {
	for part, options := range map[string]peering.Options{
		`Name "No_Name" is invalid`:     {Name: "No_Name"},
		"contains an empty name":        {Namespaces: []string{"a", ""}},
		`"a/b", which is invalid`:       {Namespaces: []string{"a/b"}},
		`contains "a" twice`:            {Namespaces: []string{"a", "b", "a"}},
		"at least one second, got -1s":  {Lifetime: -time.Second},
		"whole seconds, got":            {Lifetime: 1500 * time.Millisecond},
		"PauseAll, Elect or Share, got": {Tie: 7},
		"at most 168h0m0s, got 169h":    {Lifetime: 169 * time.Hour},
	} {
		if err := options.Check(); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%+v: error = %v, want an error with %s", options, err, part)
		}
	}
	all := peering.Options{Name: "x y", Lifetime: -1, Tie: -1}.Check()
	if n := strings.Count(all.Error(), "peering: "); n != 3 {
		t.Errorf("error = %v, want three errors", all)
	}
	for _, fine := range []peering.Options{{}, {Priority: -1 << 63, Lifetime: time.Second, Tie: peering.Elect, Namespaces: []string{"a", "b"}}, {Lifetime: peering.MaxLifetime}} {
		if err := fine.Check(); err != nil {
			t.Error(err)
		}
	}
}
