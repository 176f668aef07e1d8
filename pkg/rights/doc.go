// Package rights has the options for an operator's permissions. Pass them to kopf.WriteRights and kopf.WithRightsCheck.
package rights
