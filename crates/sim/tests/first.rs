#[test]
fn prints() {
    for table in foreread_sim::seeds::tables(None, &mut |_| {}) {
        for cell in &table.cells {
            println!(
                "{:32} {:6} {:8.2} {:8.2} {:6.2}",
                cell.row,
                cell.column,
                cell.seed.unwrap_or(0.0),
                cell.ours,
                cell.error_percent.unwrap_or(0.0)
            );
        }
        println!("{:?}", table.verdict);
    }
}
