package peering

import (
	"flag"
	"fmt"
	"strconv"
	"strings"
)

// BindFlags adds flags for the options. The current values of the options are the defaults:
//
//	--peering NAME    the peering object, which then must exist (Mandatory)
//	--priority N      the priority among the peers
//	--dev             the same as --priority=666
//	--standalone      disables peering
//	--namespace NAME  a served namespace; repeat the flag or use commas for several
//
// --dev overrides --priority. The first --namespace replaces the previous Namespaces.
//
// Equivalent in kopf: the options of "kopf run".
func (o *Options) BindFlags(fs *flag.FlagSet) {
	fs.Func("peering", "name of the peering object, which then must exist", func(name string) error {
		if name == "" {
			return fmt.Errorf("use a name such as %s", DefaultName)
		}
		o.Name, o.Mandatory = name, true
		return nil
	})
	priority := &priorityFlag{priority: &o.Priority}
	fs.Var(priority, "priority", "priority `number` among the operators of the peering object; the operator with the highest priority works, and all others pause")
	fs.BoolFunc("dev", fmt.Sprintf("run as a development operator: set the priority to %d and override --priority", DevPriority), func(text string) error {
		dev, err := strconv.ParseBool(text)
		if dev {
			o.Priority, priority.dev = DevPriority, true
		}
		return err
	})
	fs.BoolVar(&o.Standalone, "standalone", o.Standalone, "disable peering: ignore other operators and write no record")
	given := false
	fs.Func("namespace", "namespace to serve; repeat the flag or use commas for several (default: the cluster)", func(names string) error {
		if !given {
			o.Namespaces, given = nil, true
		}
		o.Namespaces = append(o.Namespaces, strings.Split(names, ",")...)
		return nil
	})
}

// priorityFlag is a priority that --dev overrides.
type priorityFlag struct {
	priority *int
	dev      bool
}

func (p *priorityFlag) String() string {
	if p.priority == nil {
		return "" // package flag calls String even on the zero value
	}
	return strconv.Itoa(*p.priority)
}

// Set implements [flag.Value].
func (p *priorityFlag) Set(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil {
		return fmt.Errorf("use an integer")
	}
	if !p.dev {
		*p.priority = n
	}
	return nil
}
