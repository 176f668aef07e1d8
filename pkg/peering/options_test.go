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

// PEER-43, PEER-45, PEER-40, PEER-44: the flags of the ecosystem.
func TestFlags(t *testing.T) {
	for args, want := range map[string]peering.Options{
		"":                              {Priority: 3, Namespaces: []string{"preset"}},
		"--peering=ours":                {Priority: 3, Namespaces: []string{"preset"}, Name: "ours", Mandatory: true}, // PEER-43
		"--priority=-7":                 {Priority: -7, Namespaces: []string{"preset"}},
		"--dev":                         {Priority: 666, Namespaces: []string{"preset"}}, // PEER-45
		"--dev=false":                   {Priority: 3, Namespaces: []string{"preset"}},
		"--dev --priority=1":            {Priority: 1, Namespaces: []string{"preset"}},
		"--priority=1 --dev":            {Priority: 666, Namespaces: []string{"preset"}},
		"--standalone --dev":            {Priority: 666, Namespaces: []string{"preset"}, Standalone: true},
		"--namespace=a --namespace b,c": {Priority: 3, Namespaces: []string{"a", "b", "c"}},
	} {
		got := peering.Options{Priority: 3, Namespaces: []string{"preset"}}
		fs := flag.NewFlagSet("test", flag.ContinueOnError)
		got.BindFlags(fs)
		if err := fs.Parse(strings.Fields(args)); err != nil {
			t.Errorf("%s: %v", args, err)
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
			t.Errorf("%s is taken", args)
		}
	}
	// PEER-43: a name that is set by the program is not mandatory for that.
	if (peering.Options{Name: "ours"}).Mandatory {
		t.Error("it is")
	}
}

func TestMistakesInOptions(t *testing.T) {
	for part, options := range map[string]peering.Options{
		`Name "No_Name" cannot be`:      {Name: "No_Name"},
		"name the namespaces, or leave": {Namespaces: []string{"a", ""}},
		`"a/b", which cannot be a name`: {Namespaces: []string{"a/b"}},
		`has "a" twice`:                 {Namespaces: []string{"a", "b", "a"}},
		"Lifetime is negative (-1s)":    {Lifetime: -time.Second},
		"use whole seconds":             {Lifetime: 1500 * time.Millisecond},
		"use PauseAll or Elect":         {Tie: 7},
	} {
		if err := options.Validate(); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%+v: %v, and not %s", options, err, part)
		}
	}
	all := peering.Options{Name: "x y", Lifetime: -1, Tie: -1}.Validate()
	if n := strings.Count(all.Error(), "peering: "); n != 3 {
		t.Errorf("not all mistakes are told: %v", all)
	}
	for _, fine := range []peering.Options{{}, {Priority: -1 << 63, Lifetime: time.Second, Tie: peering.Elect, Namespaces: []string{"a", "b"}}} {
		if err := fine.Validate(); err != nil {
			t.Error(err)
		}
	}
}
