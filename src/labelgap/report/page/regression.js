// The table of labels for answers that are numbers.

function regressionColumns() {
  const { regression } = figures;
  const means = decode(regression.label_means), predictions = decode(regression.label_predictions), deviances = decode(regression.label_deviances);
  const four = (value) => short(value, 4);
  return [
    { key: "observed", name: "observed", title: "observed cells", values: () => labelObserved, format: whole },
    { key: "mean", name: "mean answer", title: "mean of the observed answers", values: () => means, format: four },
    { key: "prediction", name: "mean prediction", title: "mean prediction at the observed cells", values: () => predictions, format: four },
    { key: "deviance", name: "deviance", title: "mean misfit of a cell; lower is better", values: () => deviances, format: four },
  ];
}
