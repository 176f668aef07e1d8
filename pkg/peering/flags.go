package peering

import (
	"flag"
	"fmt"
	"strconv"
	"strings"
)

// BindFlags adds the flags by which people choose peers, with the options as they are for defaults:
//
//	--peering NAME    the peering object; from now on it has to be there (Mandatory)
//	--priority N      the priority among the peers
//	--dev             the same as --priority=666
//	--standalone      no peers, whatever else is set
//	--namespace NAME  a namespace to be served; several: repeat it, or use commas
//
// Of --priority and --dev, the latter counts. The first --namespace replaces the Namespaces that were set before.
//
// kopf: the options of "kopf run".
func (o *Options) BindFlags(fs *flag.FlagSet) {
	fs.Func("peering", "name of the peering object, which then has to be there", func(name string) error {
		if name == "" {
			return fmt.Errorf("give a name, such as %s", DefaultName)
		}
		o.Name, o.Mandatory = name, true
		return nil
	})
	priority := &priorityFlag{priority: &o.Priority}
	fs.Var(priority, "priority", "priority among the operators of the peering object, a `number`: the highest works, the others pause")
	fs.BoolFunc("dev", fmt.Sprintf("the priority of a developer, the same as --priority=%d, whatever that is", DevPriority), func(text string) error {
		dev, err := strconv.ParseBool(text)
		if dev {
			o.Priority, priority.dev = DevPriority, true
		}
		return err
	})
	fs.BoolVar(&o.Standalone, "standalone", o.Standalone, "ignore other operators, and be unknown to them")
	given := false
	fs.Func("namespace", "namespace to serve; several: repeat the flag, or use commas (default: the cluster)", func(names string) error {
		if !given {
			o.Namespaces, given = nil, true
		}
		o.Namespaces = append(o.Namespaces, strings.Split(names, ",")...)
		return nil
	})
}

// A priorityFlag is a number that stays as it is after --dev.
type priorityFlag struct {
	priority *int
	dev      bool
}

func (p *priorityFlag) String() string {
	if p.priority == nil {
		return "" // the zero value, of which the flags ask that
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
